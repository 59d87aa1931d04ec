"""The API server: Airflow's API v2 names over the same read models as the CLI. Only this package loads a web framework.

    request ─► guard (host, origin, token, size) ─► route ─► queries/ or store/ ─► answer
                  │ refused: 403, 401, 413              └─ an OnceflowError: 404, 409, 422, 503 with code and remedy

`token.py` does without the framework, so that a parent process may use it.
"""
