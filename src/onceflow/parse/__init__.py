"""The dag-processor: keeps what the database knows of the DAG folder equal to what is in it.

    folder changed ──► scan: which files differ? ──► parse guest loads each ──► register, compare-and-set on the file

Any number of dag-processors may watch the same folder: each may load a changed file, the first to register it wins, and
a slow one whose content is older changes nothing. A broken file keeps what it declared before.
"""
