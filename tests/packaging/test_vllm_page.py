"""``packaging/VLLM.md`` opens no more of a vLLM than what its key guards, and what Safelight needs besides."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import in_json, serving

PAGE = (Path(__file__).resolve().parents[2] / "packaging" / "VLLM.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```", PAGE, re.S | re.M)
GUARD = next(block for block in BLOCKS if block.startswith("server {"))


def test_vllm_itself_listens_on_its_own_machine_alone() -> None:
    served = [block for block in BLOCKS if "vllm serve" in block and "--port" in block]
    assert served
    assert all("--host 127.0.0.1" in block for block in served)
    assert "0.0.0.0" not in PAGE


def test_two_paths_are_let_through_and_a_photograph_fits() -> None:
    assert re.findall(r"location ([^{]+?) *\{", GUARD) == ["/v1/", "= /health"]
    assert "client_max_body_size 64m;" in GUARD


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed here")
def test_nginx_passes_them_on_and_nothing_else(tmp_path: Path) -> None:
    def sizes(request: Request) -> None:
        in_json({"bytes": len(request.body)})(request)

    open_paths = ("v1_chat_completions", "health")
    routes: dict[str, Any] = dict.fromkeys((*open_paths, "invocations", "tokenize"), sizes)
    with serving() as free:
        port = free.port
    with serving(**routes) as vllm:
        block = GUARD.replace("listen 8000", f"listen 127.0.0.1:{port}").replace(
            "127.0.0.1:8001", f"127.0.0.1:{vllm.port}"
        )
        places = "".join(
            f"{name}_temp_path {tmp_path / name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"daemon off; master_process off; pid {tmp_path / 'pid'}; error_log {tmp_path / 'log'};\n"
            f"events {{}}\nhttp {{ access_log off; {places}\n{block}\n}}\n"
        )
        nginx = subprocess.Popen(["nginx", "-c", str(config), "-e", str(tmp_path / "log")])
        try:
            paths = ("/v1/chat/completions", "/health", "/invocations", "/tokenize", "/v2/")
            found = [_status(f"http://127.0.0.1:{port}{path}") for path in paths]
        finally:
            nginx.terminate()
            nginx.wait(10)
    assert found == [200, 200, 404, 404, 404]


def _status(url: str) -> int:
    """The answer to 8 MB, once there is a server."""
    for _ in range(100):
        try:
            return httpx2.post(url, content=b" " * 8_000_000, trust_env=False, timeout=30).status_code
        except httpx2.ConnectError:
            time.sleep(0.05)
    raise AssertionError("nginx did not start")
