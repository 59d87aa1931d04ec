"""Authoring: what DAG files are written with, and what runs their tasks in a guest.

    declare   dag.py, group.py, operator.py, operators.py, decorators.py, asset.py, asset_function.py, trigger.py
    join      edges.py (>>), xcom.py (results as arguments), params.py, schedule.py, consume.py
    check     options.py and typed.py (every argument), identity.py (does a trigger know its changes?)
    compile   spec.py: to the plain specs of the model, with the checks that need the whole file
    run       runtime.py (one attempt), taskrun.py and context.py (what it knows), events.py, outcome.py, templates.py

A DAG object is what its author wrote; nothing outside of a guest ever sees one. Errors are DagErrors that name the
file and line of the author's code (`where.py`).
"""
