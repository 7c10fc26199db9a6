"""The official Python client, run in its own environment: both transports, both eras, for a run and for an operator.

Told by JSON on standard input where everything is; says by JSON what it saw. Raises if it saw anything else.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

RUN_TOOLS = ["acquire_lock", "release_lock", "renew_lock", "list_locks", "call_agent", "check_call", "wait_call", "set_status", "return_value", "rerun"]
LOOKING = ["fleet_status", "list_agents", "list_runs", "read_log", "list_locks", "why"]
ACTING = ["run_agent", "pause", "resume", "kill_run", "break_lock"]


def over_http(place, bearer):
    return streamable_http_client(place["url"], http_client=create_mcp_http_client({"Authorization": f"Bearer {bearer}"}))


def names(listed):
    return [tool.name for tool in listed.tools]


async def called(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    return result.structured_content, result.is_error


async def as_run(client, seen, how):
    assert names(await client.list_tools()) == RUN_TOOLS
    key = f"sdk:{how}"
    got, is_error = await called(client, "acquire_lock", keys=[key])
    assert got["outcome"] == "granted" and not is_error, got
    got, is_error = await called(client, "release_lock", key=key)
    assert got["outcome"] == "released", got
    got, is_error = await called(client, "release_lock", key=key)
    assert got["outcome"] == "not_held" and is_error, got
    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["locking_habit"]
    seen.append(f"run {how} {client.protocol_version}")


async def as_operator(client, seen, how):
    assert names(await client.list_tools()) == LOOKING + ACTING
    for tool, arguments in [("fleet_status", {}), ("list_agents", {}), ("list_runs", {}), ("list_locks", {}), ("why", {"of": "living"}), ("read_log", {"run": "living"})]:
        got, is_error = await called(client, tool, **arguments)
        assert got["outcome"] == "listed" and not is_error, got
    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert "bell://agents/living" in uris, uris
    read = await client.read_resource("bell://agents/living")
    assert json.loads(read.contents[0].text)["agent"] == "living"
    assert len((await client.list_resource_templates()).resource_templates) == 3
    got, is_error = await called(client, "kill_run", run="nobody", reason="a test")
    assert got["outcome"] == "not_found" and is_error, got
    seen.append(f"operator {how} {client.protocol_version}")


async def main():
    place = json.load(sys.stdin)
    run_env = {"BELL_URL": place["run_url"], "BELL_TOKEN": place["token"]}
    seen = []
    for mode in ("auto", "legacy"):
        async with Client(over_http(place, place["token"]), mode=mode) as client:
            await as_run(client, seen, "http")
        async with Client(over_http(place, place["key"]), mode=mode) as client:
            await as_operator(client, seen, "http")
        async with Client(over_http(place, place["read_key"]), mode=mode) as client:
            assert names(await client.list_tools()) == LOOKING
            got, is_error = await called(client, "pause", reason="a test")
            assert got["outcome"] == "unauthorized" and is_error, got
        async with Client(StdioServerParameters(command=place["bell"], args=["mcp"], env=run_env), mode=mode) as client:
            await as_run(client, seen, "stdio")
        async with Client(StdioServerParameters(command=place["bell"], args=["mcp"], cwd=place["project"], env=place["env"]), mode=mode) as client:
            await as_operator(client, seen, "stdio")
    print(json.dumps(seen))


asyncio.run(main())
