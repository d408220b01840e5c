"""Twenty conversations that chat templates are compared on, and what transformers makes of them.

Used by template_goldens.py and check_templates.py. Needs `pip install transformers jinja2`.
"""

import datetime

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Current weather in a city.\nUnits are metric.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Name, e.g. \"Z\u00fcrich\""},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 1}}, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "search", "description": "Search <docs> & notes",
        "parameters": {"type": "object", "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "filters": {"type": "object", "description": "restrictions", "properties": {
                "tags": {"type": "array", "description": "any of", "items": {"type": "string"}},
                "score": {"type": "number", "description": "least"}}},
            "exact": {"type": "boolean", "description": "whole words", "nullable": True},
            "limit": {"type": ["integer", "null"], "description": "at most"}}, "required": ["query", "filters"]},
        "return": {"type": "object", "description": "hits"}}},
]
NOW = datetime.datetime(2026, 11, 5, 7, 8, 9)
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def user(content):
    return {"role": "user", "content": content}


def system(content):
    return {"role": "system", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="call_00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, name="get_weather", id="call_00001"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": content}


def chat(name, messages, **more):
    return {"name": name, "messages": messages, **more}


CHATS = [
    chat("one turn", [user("Hello!"), assistant("Hi there.")]),
    chat("prompt", [user("Hello!")], add_generation_prompt=True),
    chat("system", [system("You are terse."), user("Name a colour."), assistant("Blue.")]),
    chat("three turns", [user("1"), assistant("one"), user("2"), assistant("two"), user("3"), assistant("three")]),
    chat("system and turns, prompt", [system("S"), user("a"), assistant("b"), user("c")], add_generation_prompt=True),
    chat("white space", [system("  \n padded \t\n"), user("\n\n  lead and trail  \n"), assistant("\tx\r\ny \u00a0\u3000\n")]),
    chat("CJK", [user("\u4f60\u597d\uff0c\u4e16\u754c\u3002\u6771\u4eac\u90fd"), assistant("\ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3002")]),
    chat("emoji", [user("\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f"), assistant("e\u0301\u0327 \U0001f3f3\ufe0f\u200d\U0001f308 \u200f\u202e")]),
    chat("empty content", [system(""), user(""), assistant("")]),
    chat("quotes and tags", [user("\"a\" 'b' \\n {{ x }} {% if %} <|im_end|> </think>"), assistant("<b>&amp;</b> `c`")]),
    chat("reasoning", [user("2+2?"), assistant("4", reasoning_content="Add them.\n"), user("3+3?"),
                       assistant("6", reasoning_content="\nAgain.")]),
    chat("think in content", [user("2+2?"), assistant("<think>\nAdd them.\n</think>\n\n4"), user("And 3+3?"),
                              assistant("<think>\n\n</think>\n\n6")]),
    chat("thinking off", [user("2+2?")], add_generation_prompt=True, extra={"enable_thinking": False}),
    chat("thinking on", [system("Think."), user("2+2?"), assistant("4", thinking="Hm."), user("5+5?")],
         add_generation_prompt=True, extra={"enable_thinking": True, "reasoning_effort": "high"}),
    chat("tools", [user("Weather in Z\u00fcrich?")], tools=TOOLS, add_generation_prompt=True),
    chat("tool call", [system("Use tools."), user("Weather?"),
                       assistant("", tool_calls=[call("get_weather", {"city": "Z\u00fcrich", "days": 2})]),
                       tool("{\"temp\": 21.5}"), assistant("It is 21.5.")], tools=TOOLS),
    chat("two tool calls", [user("Both!"),
                            assistant("Looking.", tool_calls=[
                                call("get_weather", {"city": "\u6771\u4eac", "unit": "celsius"}, "call_00001"),
                                call("search", {"query": "a \"b\"", "filters": {"tags": ["x", "y"], "score": 1e-05},
                                                "exact": True, "limit": None}, "call_00002")]),
                            tool("sunny"), tool("[1, 2]", "search", "call_00002"), assistant("Done."), user("Thanks"),
                            assistant("Welcome.")], tools=TOOLS),
    chat("arguments as text", [user("Go"), assistant(None, tool_calls=[call("search", "{\"query\": \"q\"}")]),
                               tool("none", "search"), assistant("Nothing.")], tools=TOOLS),
    chat("one tool call, no schema", [user("Go"), assistant("", tool_calls=[call("get_weather", {})]),
                                      tool({"temp": 3, "ok": True}), user("So?")], add_generation_prompt=True),
    chat("parts", [system([{"type": "text", "text": "Sys"}]),
                   user([{"type": "text", "text": "First. "}, {"type": "text", "text": " Second"}]),
                   assistant([{"type": "text", "text": "Answer"}])]),
]


class FrozenDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def now_seconds():
    return int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())


def reference(source, one):
    """{"text", "generated": spans in bytes} or {"error"}, as transformers renders it."""
    from transformers.utils import chat_template_utils
    chat_template_utils.datetime = FrozenDate
    try:
        rendered, spans = chat_template_utils.render_jinja_template(
            conversations=[one["messages"]], tools=one.get("tools"), chat_template=source,
            add_generation_prompt=one.get("add_generation_prompt", False), return_assistant_tokens_mask=True,
            **{**SPECIAL_TOKENS, **one.get("extra", {})})
    except Exception as error:  # what a template raises, of whatever type
        return {"error": f"{type(error).__name__}: {error}"}
    text = rendered[0]
    return {"text": text, "generated": [[len(text[:end].encode()) for end in span] for span in spans[0]]}
