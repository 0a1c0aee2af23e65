"""Runs a command on a Spark standalone cluster of its own: python bench/cluster.py WORKERS COMMAND...

Master and workers come with pip's Spark and end with the command. Each worker has one core and 3 GB.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MEMORY = "3g"
PATIENCE = 300


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def daemon(folder, env, name, *arguments):
    with (folder / f"{name}.log").open("w") as log:
        command = [CLASS, f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
        return subprocess.Popen(command, env=env, stdout=log, stderr=log)


def wait_for(folder, name, text):
    for _ in range(PATIENCE):
        if text in (folder / f"{name}.log").read_text():
            return
        time.sleep(1)
    raise SystemExit(f"no {name} after {PATIENCE} s:\n{(folder / f'{name}.log').read_text()[-2000:]}")


def main():
    workers, command = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as scratch:
        folder, port = Path(scratch), free_port()
        (folder / "spark-defaults.conf").write_text(f"spark.executor.memory {MEMORY}\n")
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": scratch, "SPARK_NO_DAEMONIZE": "1"}
        env = os.environ | own | {"SPARK_MASTER": f"spark://127.0.0.1:{port}", "PYSPARK_PYTHON": sys.executable}
        (folder / "log4j2.properties").write_text(LOGGING)
        running = []
        try:
            master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
            running.append(daemon(folder, env, "master", "master.Master", *master))
            wait_for(folder, "master", "I have been elected leader")
            for n in range(workers):
                size = ["--cores", "1", "--memory", MEMORY, "--work-dir", f"{scratch}/{n}", "--webui-port", "0"]
                running.append(daemon(folder, env, f"worker{n}", "worker.Worker", *size, env["SPARK_MASTER"]))
            for n in range(workers):
                wait_for(folder, f"worker{n}", "Successfully registered")
            status = subprocess.run(command, env=env, check=False).returncode
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()
    sys.exit(status)


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""

if __name__ == "__main__":
    main()
