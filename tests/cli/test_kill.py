"""Nothing that the server acknowledged is lost when it is killed in the middle of its work."""

from __future__ import annotations

import http.client
import json
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.cli.running import Dray
from tests.waiting import SECONDS, wait_until

KILLS = 20
WRITERS = 4
PATH = "/api/v1/namespaces/default/configmaps"


class Writer(threading.Thread):
    """Creates objects as fast as it can and remembers those that were acknowledged."""

    def __init__(self, port: int, number: int, round_: int) -> None:
        super().__init__()
        self.prefix = f"r{round_}-w{number}"
        self.acknowledged: list[str] = []
        self._port = port

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        try:
            for i in range(1_000_000):
                name = f"{self.prefix}-{i}"
                body = json.dumps({"metadata": {"name": name}, "data": {"text": "x" * 500}})
                connection.request("POST", PATH, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 201:
                    self.acknowledged.append(name)
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()


def names(port: int) -> set[str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", PATH)
    items = json.loads(connection.getresponse().read())["items"]
    connection.close()
    return {item["metadata"]["name"] for item in items}


@pytest.mark.slow
def test_every_acknowledged_write_is_there_after_twenty_kills(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for round_ in range(KILLS):
        with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--insecure", "--store", "sqlite") as server:
            port = int(re.search(r"http://127.0.0.1:(\d+)", server.lines[0])[1])  # type: ignore[index]  # it is there
            missing = acknowledged - names(port)
            assert not missing, f"round {round_}: lost {sorted(missing)[:5]}"
            writers = [Writer(port, number, round_) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            wait_until(lambda writers=writers: sum(len(writer.acknowledged) for writer in writers) > 20)
            time.sleep(0.02 * round_)
            server.process.send_signal(signal.SIGKILL)
            for writer in writers:
                writer.join()
                acknowledged.update(writer.acknowledged)
