"""What both Python peers do, whatever library speaks for them: ask a scheduler everything, then work for it.

A library is an object with
  types         namespace of the IDL's structs: BistroInstanceID, BistroWorker, ...
  client()      context manager: a client of the scheduler
  serve(h, p)   serves BistroWorker with handler h on port p, in threads of its own
  refusal       the exception class of undeclared exceptions
"""

import json
import socket
import sys
import threading
import time

PATIENCE = 60
HEALTHCHECK_JOB = "__BISTRO_HEALTH_CHECK__"
DONE = 4
NO_WORK = 2
ALIVE = 2


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(library, what, call):
    try:
        call()
    except library.refusal as error:
        check(str(error.message), f"{what}: the refusal says nothing")
        return error.message
    raise AssertionError(f"{what}: not refused")


def ask(library, job, node_level):
    """Every question of the original interface that the scheduler answers."""
    types = library.types
    with library.client() as client:
        check(client.getStatus() == ALIVE, "the scheduler is alive")
        jobs = client.getJobs()
        check([j.name for j in jobs] == [job], f"jobs: {jobs}")
        one = client.getJob(job)
        check(one == jobs[0], f"getJob and getJobs differ: {one} {jobs[0]}")
        check(one.enabled and one.owner == "python" and one.priority == 2.5, f"job: {one}")
        check(one.resources == {"slots": 1}, f"resources: {one.resources}")
        check(one.backoffValues == [1, 2] and one.backoffRepeat, f"backoff: {one}")
        check(json.loads(one.config) == {"answer": 42}, f"config: {one.config}")
        check(one.killRequest.method == 1, f"kill request: {one.killRequest}")
        message = refused(library, "an unknown job", lambda: client.getJob("nobody"))
        check("nobody" in message, message)
        check(client.getLevels() == [node_level], "levels")
        histograms = client.getJobHistograms([], 3)
        check([h.job for h in histograms] == [job], f"histograms: {histograms}")
        check(node_level in histograms[0].statuses, f"histograms: {histograms}")
        check(client.getJobHistograms(["nobody"], 3) == [], "histograms of unknown jobs are left out")
        new = types.BistroJobConfig(name=job, enabled=False, config="{}")
        message = refused(library, "saveJob of a job of the file", lambda: client.saveJob(new))
        check("config file" in message, message)
        message = refused(library, "logs", lambda: client.getJobLogsByID("stdout", job, "", -1, True, "", None))
        check("no worker" in message, message)
        me = types.BistroInstanceID(startTime=1, rand=2)
        demands = [types.WorkDemand(processor="CPU", instances=2.0, reqInstanceSecs=60.0, idleInstances=1.0)]
        request = types.WorkRequest(worker=me, scheduler=me, seq=3, demands=demands, lingerSec=0.0)
        message = refused(library, "a wish told to another scheduler", lambda: client.requestWork(request))
        check("but this is" in message, message)
        demands[0].idleInstances = -1.0
        message = refused(library, "a wish for less than nothing", lambda: client.requestWork(request))
        check("requestWork.request.demands[0].idleInstances" in message, message)
        # The connection has survived the refusals.
        check(client.getStatus() == ALIVE, "the scheduler is still alive")


def change(library, job):
    """A job by API: given, changed on the version that was read, forgiven, deleted."""
    types = library.types
    with library.client() as client:
        new = types.BistroJobConfig(name="new", enabled=False, owner="python", config='{"a": 1}')
        client.saveJob(new)
        saved = client.getJob("new")
        check(saved.owner == "python" and not saved.enabled, f"saved: {saved}")
        check(json.loads(saved.config) == {"a": 1} and saved.versionID > 0 and saved.createTime > 0, f"saved: {saved}")
        message = refused(library, "a second creation", lambda: client.saveJob(new))
        check(f"version {saved.versionID}" in message, message)
        saved.priority = 7.5
        client.saveJob(saved)
        again = client.getJob("new")
        check(again.priority == 7.5 and again.versionID > saved.versionID, f"changed: {again}")
        message = refused(library, "a stale version", lambda: client.saveJob(saved))
        check("somebody changed it" in message, message)
        again.backoffValues = [2, 1]
        message = refused(library, "a bad backoff", lambda: client.saveJob(again))
        check("backoff" in message, message)
        client.forgiveJob("new")
        client.forgiveJob(job)
        message = refused(library, "forgiving nobody", lambda: client.forgiveJob("nobody"))
        check("nobody" in message, message)
        client.deleteJob("new")
        check([j.name for j in client.getJobs()] == [job], "the job is deleted")
        for name, why in [("new", "no job"), (job, "config file")]:
            try:
                client.deleteJob(name)
            except Exception as error:
                check(why in error.message, f"deleting {name}: {error}")
            else:
                raise AssertionError(f"deleting {name}: not refused")


class Handler:
    """A worker that takes every task and runs none."""

    def __init__(self, library):
        self.library = library
        self.lock = threading.Condition()
        self.calls = []
        self.tasks = []
        self.healthchecks = 0

    def getStatus(self):
        return ALIVE

    def getRunningTasks(self, worker, scheduler=None):
        self.calls.append("getRunningTasks")
        return []

    def runTask(self, rt, config, command, scheduler, worker, notify_if_tasks_not_running_sequence_num, opts):
        self.calls.append("runTask")
        task = (rt, config, command, scheduler, worker, opts)
        if rt.job == HEALTHCHECK_JOB:
            # In a thread: the answer to this call goes first.
            threading.Thread(target=self.pass_healthcheck, args=(task,), daemon=True).start()
            return
        with self.lock:
            self.tasks.append(task)
            self.lock.notify_all()

    def notifyIfTasksNotRunning(self, rts, scheduler, worker, notify_if_tasks_not_running_sequence_num):
        self.calls.append("notifyIfTasksNotRunning")

    def requestSuicide(self, scheduler, worker):
        self.calls.append("requestSuicide")

    def killTask(self, rt, scheduler, worker, req):
        self.calls.append("killTask")

    def getJobLogsByID(self, logtype, job_ids, node_ids, line_id, is_ascending, limit, regex_filter, invocation=None):
        return self.library.types.LogLines(lines=[], nextLineID=-1)

    def pass_healthcheck(self, task):
        self.report(task, "done")
        with self.lock:
            self.healthchecks += 1

    def report(self, task, status):
        rt, _, _, scheduler, worker, _ = task
        with self.library.client() as client:
            client.updateStatus(rt, status, scheduler, worker)

    def next_task(self):
        with self.lock:
            check(self.lock.wait_for(lambda: self.tasks, PATIENCE), f"no task came; calls were {self.calls}")
            return self.tasks.pop()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def empty_set(types):
    zero = lambda: types.SetHash(addAll=0, xorAll=0)
    return types.WorkerSetID(
        schedulerID=types.BistroInstanceID(startTime=0, rand=0),
        version=0,
        hash=types.WorkerSetHash(startTime=zero(), rand=zero(), numWorkers=0),
    )


def work(library, job, node, command):
    """Joins as a worker, takes the one task, and reports that it is done."""
    types = library.types
    handler = Handler(library)
    port = free_port()
    library.serve(handler, port)
    me = types.BistroWorker(
        shard="python",
        machineLock=types.MachinePortLock(hostname="python", port=port),
        addr=types.ServiceAddress(ip_or_host="127.0.0.1", port=port),
        id=types.BistroInstanceID(startTime=int(time.time()), rand=port),
        heartbeatPeriodSec=1,
        protocolVersion=2,
        usableResources=types.UsablePhysicalResources(msSinceEpoch=1, cpuCores=2.0, memoryMB=1024.0, gpus=[]),
    )
    stop = threading.Event()
    answers = []

    def heartbeats():
        worker_set = empty_set(types)
        with library.client() as client:
            while not stop.is_set():
                answer = client.processHeartbeat(me, worker_set)
                worker_set = answer.workerSetID
                answers.append(answer)
                stop.wait(0.1)

    beating = threading.Thread(target=heartbeats, daemon=True)
    beating.start()
    task = handler.next_task()
    rt, config, sent_command, scheduler, worker, opts = task
    check((rt.job, rt.node, rt.workerShard) == (job, node, "python"), f"task: {rt}")
    check(worker == me.id, f"meant for another worker: {worker}")
    check(scheduler == answers[-1].id, f"from another scheduler: {scheduler} {answers[-1].id}")
    check(answers[-1].protocolVersion == 2, f"answer: {answers[-1]}")
    check(sent_command == command, f"command: {sent_command}")
    check(json.loads(config)["config"] == {"answer": 42}, f"config: {config}")
    check(opts.pollMs == 10 and opts.useCanaryPipe, f"options: {opts}")
    check("getRunningTasks" in handler.calls and handler.healthchecks > 0, f"calls: {handler.calls}")
    check(rt.invocationID.startTime > 0, f"invocation: {rt}")
    handler.report(task, json.dumps({"result": "done", "data": {"by": "python"}}))
    # Told twice, it is acknowledged twice.
    handler.report(task, json.dumps({"result": "done", "data": {"by": "python"}}))
    wait_until_done(library, job)
    with library.client() as client:
        # Once more, beside one for another scheduler: each has its own result.
        updates = [
            types.StatusUpdate(runningTask=rt, status="done", scheduler=to, worker=me.id) for to in [scheduler, me.id]
        ]
        results = client.updateStatusBatch(updates)
        check([result.refusal is None for result in results] == [True, False], f"results: {results}")
        demands = [types.WorkDemand(processor="CPU", instances=2.0, reqInstanceSecs=60.0, idleInstances=1.0, waitingInstances=0.0)]
        request = types.WorkRequest(
            worker=me.id, scheduler=scheduler, seq=3, demands=demands, known=[], lingerSec=0.0, choosesCards=True
        )
        # The second time it is the same request.
        for reply in [client.requestWork(request), client.requestWork(request)]:
            verdicts = [(v.processor, v.verdict) for v in reply.verdicts]
            check(reply.seq == 3 and verdicts == [("CPU", NO_WORK)], f"work: {reply}")
    stop.set()
    beating.join(PATIENCE)


def wait_until_done(library, job):
    deadline = time.monotonic() + PATIENCE
    with library.client() as client:
        while True:
            histogram = client.getJobHistograms([job], 1)[0]
            counts = {bits: bucket.count for bits, bucket in histogram.statuses["item"].items()}
            if counts == {DONE: 1}:
                return
            check(time.monotonic() < deadline, f"the job is not done: {counts}")
            time.sleep(0.05)


def main(library, arguments):
    ask(library, arguments.job, "item")
    change(library, arguments.job)
    work(library, arguments.job, arguments.node, arguments.command.split())
    print("all as expected")
    # Server threads need no goodbye.
    sys.stdout.flush()


def add_arguments(parser):
    parser.add_argument("--idl", required=True, help="folder of the IDL, or of what was generated from it")
    parser.add_argument("--scheduler", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--job", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--protocol", choices=["compact", "binary"], required=True)
