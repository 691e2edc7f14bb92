"""The queue, the machine and the dashboard's own process at one moment."""

from __future__ import annotations

import math
import platform

import psutil

from shoal import __version__
from shoal.dashboard.monitoring.exposition import Family, Figure, single
from shoal.dashboard.system import machine
from shoal.queueing import team
from shoal.runs.tickets import in_line


def build() -> list[Family]:
    labels = {"version": __version__, "python": platform.python_version()}
    return [Family("shoal_build_info", "gauge", "Always 1; which version answers.", [Figure(1, labels)])]


def queue() -> list[Family]:
    """StateError where the queue cannot be read."""
    waiting = in_line()
    ages = [one.seconds for one in waiting if math.isfinite(one.seconds)]  # one that is gone since has none
    oldest = max(0.0, *ages) if ages else 0.0
    found = [
        single("shoal_queue_length", "gauge", "Runs that wait for their turn.", len(waiting)),
        single("shoal_queue_oldest_seconds", "gauge", "How long the run that waits longest has waited.", oldest),
    ]
    if team.is_set():
        hosts = team.glance().hosts
        found.append(single("shoal_run_hosts", "gauge", "Run hosts that are up.", len(hosts)))
    if slots := machine.slots():
        found += [
            single("shoal_slots", "gauge", "Cores that gradient runs may use together.", slots.total),
            single("shoal_slots_taken", "gauge", "Of these, those that runs hold.", slots.taken),
        ]
    return found


def host() -> list[Family]:
    now = machine.machine(0.0)
    found = [
        single("shoal_host_cores", "gauge", "Cores that this process may use.", now.cores),
        single("shoal_host_memory_bytes", "gauge", "Memory of the machine.", now.memory_total),
        single("shoal_host_memory_used_bytes", "gauge", "Of this, what cannot be had.", now.memory_used),
        single("shoal_disk_bytes", "gauge", "Size of the file system that SHOAL_HOME is on.", now.disk_total),
        single("shoal_disk_used_bytes", "gauge", "Of this, what cannot be written to.", now.disk_used),
        single("shoal_disk_free_bytes", "gauge", "Of this, what is free.", now.disk_total - now.disk_used),
    ]
    if now.load is not None:
        found.append(single("shoal_host_load1", "gauge", "Processes that want a core, over the last minute.", now.load))
    return found


def own_process() -> list[Family]:
    """By the names that all Prometheus clients use."""
    process = psutil.Process()
    with process.oneshot():
        memory, times = process.memory_info(), process.cpu_times()
        found = [
            single("process_resident_memory_bytes", "gauge", "Resident memory of the dashboard.", memory.rss),
            single("process_virtual_memory_bytes", "gauge", "Virtual memory of the dashboard.", memory.vms),
            single(
                "process_cpu_seconds_total", "counter", "Processor time of the dashboard.", times.user + times.system
            ),
            single(
                "process_start_time_seconds", "gauge", "When the dashboard began, since 1970.", process.create_time()
            ),
            single("process_threads", "gauge", "Threads of the dashboard.", process.num_threads()),
        ]
        if hasattr(process, "num_fds"):
            found.append(single("process_open_fds", "gauge", "Open files of the dashboard.", process.num_fds()))
    return found
