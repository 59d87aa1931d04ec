"""What every process of Onceflow stands on.

A process is a list of services; a service is `run_once() -> did_work` plus what wakes it. The parent (`supervisor`)
starts role children, restarts those that die and releases what they owned; the child (`role`) connects, registers,
keeps its lease and runs its services until it is told to stop or its parent is gone.

    supervisor ──spawns──► role ──runs──► service, service, …      each: wake, run, look again at 3, 10, 30 ms, sleep
        │                   │
        └─ release(dead) ◄──┘ exits: stop, crash, SIGKILL, or its lease was lost
"""
