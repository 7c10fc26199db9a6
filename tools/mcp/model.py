"""A model that follows a script: for agent programs that are to be seen using the tools, without a key and without a network.

It answers four vendors' APIs (OpenAI chat completions and responses, Anthropic messages, Gemini) with the next turn of the
script. Which one that is, it sees from the conversation: as many turns are over as there are results of tools in it. So it
remembers nothing, and a program may ask twice.
"""

import http.server
import json
import re
import socketserver
import threading
import time

# What the agent is made to do: a lock, its release, a value for whoever called.
SCRIPT = [
    ("acquire_lock", {"keys": ["demo:thing"], "wait_seconds": 5}),
    ("release_lock", {"key": "demo:thing"}),
    ("return_value", {"value": "it was locked and released"}),
]
# What a model that does not know the tools would search for.
WORDS = {
    "acquire_lock": "lock a resource before changing it",
    "release_lock": "unlock, give a lock back",
    "return_value": "give the result of this run",
}
LAST_WORDS = "Done: it was locked, released, and reported."


class Request:
    """A conversation so far, whoever's words it is in."""

    def __init__(self, names, results):
        # Names of tools, as the program has rewritten them; results of our tools that are in the conversation.
        self.names, self.results = names, results

    def turn(self):
        """The next call, as (name, arguments), or the last words."""
        if self.results >= len(SCRIPT):
            return LAST_WORDS
        wanted, arguments = SCRIPT[self.results]
        named = [name for name in self.names if name == wanted or re.search(r"[^a-z]" + wanted + "$", name)]
        # A program that asks for a title, say, offers no tools.
        return (named[0], arguments) if named else "ok"


def tool_names(tools):
    for tool in tools or []:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools", []):
                yield tool["name"] + "\0" + inner["name"]
        yield from (one["name"] for one in tool.get("functionDeclarations", []))
        name = tool.get("name") or tool.get("function", {}).get("name")
        if name and tool.get("type") != "namespace":
            yield name


def is_ours(name):
    return any(str(name or "").endswith(ours) for ours, _ in SCRIPT)


# --- OpenAI chat completions: goose, opencode, qwen, copilot


def chat_request(body):
    messages, offered = body.get("messages", []), list(tool_names(body.get("tools")))
    ours, searched, found = set(), set(), []
    for message in messages:
        for call in message.get("tool_calls") or []:
            name, arguments = call.get("function", {}).get("name"), json.loads(call.get("function", {}).get("arguments") or "{}")
            name = {"tool_call": arguments.get("name"), "mcp": arguments.get("tool")}.get(name, name)
            (ours if is_ours(name) else searched).add(call.get("id"))
        if message.get("role") == "tool" and message.get("tool_call_id") in searched:
            found += re.findall(r"[a-z_]*(?:acquire_lock|release_lock|return_value)\b", text_of(message))
    results = sum(1 for message in messages if message.get("role") == "tool" and message.get("tool_call_id") in ours)
    for way in HIDDEN:
        if way[0] in offered and not any(map(is_ours, offered)):
            return Hidden(found, results, *way)
    return Request(offered, results)


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


# Some programs show a tool only to who searches for it, and call it by another one: qwen, pi.
HIDDEN = [
    ("tool_search", lambda words: {"query": words, "max_results": 3}, "tool_call", lambda name, arguments: {"name": name, "arguments": arguments}),
    ("mcp", lambda words: {"search": words}, "mcp", lambda name, arguments: {"tool": name, "args": arguments}),
]


class Hidden(Request):
    """A conversation in which tools must be searched for."""

    def __init__(self, names, results, finder, find, caller, call):
        super().__init__(names, results)
        self.finder, self.find, self.caller, self.call = finder, find, caller, call

    def turn(self):
        turn = super().turn()
        if turn == "ok":
            return (self.finder, self.find(WORDS[SCRIPT[self.results][0]]))
        return turn if isinstance(turn, str) else (self.caller, self.call(*turn))


def chat_answer(body, turn, number):
    base = {"id": f"chat-{number}", "created": int(time.time()), "model": body.get("model", "scripted")}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if isinstance(turn, str):
        message, reason = {"role": "assistant", "content": turn}, "stop"
    else:
        call = {"id": f"call_{number}", "type": "function", "function": {"name": turn[0], "arguments": json.dumps(turn[1])}}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    delta = {**message, "tool_calls": [{**call, "index": 0} for call in message.get("tool_calls", [])]}
    if not delta["tool_calls"]:
        del delta["tool_calls"]
    chunk = {**base, "object": "chat.completion.chunk"}
    return [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**chunk, "choices": [], "usage": usage},
        "[DONE]",
    ]


# --- OpenAI responses: codex


def responses_request(body):
    items = body.get("input") if isinstance(body.get("input"), list) else []
    ours = {item.get("call_id") for item in items if item.get("type") == "function_call" and is_ours(item.get("name"))}
    results = sum(1 for item in items if item.get("type") == "function_call_output" and item.get("call_id") in ours)
    return Request(list(tool_names(body.get("tools"))), results)


def responses_answer(body, turn, number):
    if isinstance(turn, str):
        item = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [{"type": "output_text", "text": turn}]}
    else:
        space, _, name = turn[0].rpartition("\0")
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": json.dumps(turn[1])}
        if space:
            item["namespace"] = space
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": None, "output_tokens_details": None}
    response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    if not body.get("stream"):
        return response
    return [
        {"type": "response.created", "response": {"id": f"resp_{number}"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


# --- Anthropic messages: claude


def messages_request(body):
    ours, results = set(), 0
    for message in body.get("messages", []):
        parts = message.get("content") if isinstance(message.get("content"), list) else []
        for part in parts:
            if part.get("type") == "tool_use" and is_ours(part.get("name")):
                ours.add(part.get("id"))
            if part.get("type") == "tool_result" and part.get("tool_use_id") in ours:
                results += 1
    return Request(list(tool_names(body.get("tools"))), results)


def messages_answer(body, turn, number):
    if isinstance(turn, str):
        block, reason = {"type": "text", "text": turn}, "end_turn"
    else:
        block, reason = {"type": "tool_use", "id": f"toolu_{number}", "name": turn[0], "input": turn[1]}, "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model", "scripted"), "stop_sequence": None}
    if not body.get("stream"):
        return {**message, "content": [block], "stop_reason": reason, "usage": usage}
    if isinstance(turn, str):
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn}
    else:
        start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(turn[1])}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


# --- Gemini


def gemini_request(body):
    results = 0
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if is_ours((part.get("functionResponse") or {}).get("name")):
                results += 1
    return Request(list(tool_names(body.get("tools"))), results)


def gemini_answer(_body, turn, _number):
    part = {"text": turn} if isinstance(turn, str) else {"functionCall": {"name": turn[0], "args": turn[1]}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}


class Vendor(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_path = None
    count = 0
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def do_GET(self):
        models = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "here"}]
        self.reply({"object": "list", "data": models, "models": []})

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else self.chunks()
        body = json.loads(raw or b"{}")
        path = self.path.split("?")[0]
        with self.lock:
            Vendor.count += 1
            number = Vendor.count
            if self.log_path:
                with open(self.log_path, "a") as log:
                    log.write(json.dumps({"path": self.path, "body": body}) + "\n")
        if path.endswith("/chat/completions"):
            self.reply(chat_answer(body, chat_request(body).turn(), number))
        elif path.endswith("/responses"):
            self.reply(responses_answer(body, responses_request(body).turn(), number))
        elif path.endswith("/messages"):
            self.reply(messages_answer(body, messages_request(body).turn(), number))
        elif "countTokens" in path or "count_tokens" in path:
            self.reply({"totalTokens": 1, "input_tokens": 1})
        elif "streamGenerateContent" in path:
            self.reply([gemini_answer(body, gemini_request(body).turn(), number)])
        elif "generateContent" in path:
            self.reply(gemini_answer(body, gemini_request(body).turn(), number))
        else:
            self.reply({})

    def chunks(self):
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def reply(self, answer):
        """One object, or a list of events."""
        if isinstance(answer, list):
            events = []
            for event in answer:
                kind = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
                text = event if isinstance(event, str) else json.dumps(event)
                events.append(f"{kind}data: {text}\n\n")
            content, kind = "".join(events).encode(), "text/event-stream"
        else:
            content, kind = json.dumps(answer).encode(), "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def serve(log_path=None):
    """Starts the model on a free port of this machine. Answers the port."""
    Vendor.log_path = log_path
    server = Threads(("127.0.0.1", 0), Vendor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


if __name__ == "__main__":
    import sys

    print(serve(sys.argv[1] if len(sys.argv) > 1 else None), flush=True)
    threading.Event().wait()
