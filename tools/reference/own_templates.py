"""Templates written for Windlass's tests: together they have every construct that published templates were found to use."""

TEMPLATES = {
    "turns": """{%- for message in messages %}
    {%- if loop.first and message['role'] != 'system' %}
        {{- bos_token + '[system]\\nBe kind.' + eos_token + '\\n' }}
    {%- endif %}
    {%- if message.role not in ['user', 'assistant', 'system', 'tool'] %}
        {{- raise_exception('no role ' ~ message.role) }}
    {%- endif %}
    {%- if message['content'] is string %}
        {{- '[' + message['role'] + ']\\n' + message['content'] | trim + eos_token + '\\n' }}
    {%- else %}
        {{- raise_exception('content must be a string') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '[assistant]\\n' }}{% endif -%}
""",
    "marked": """{# The assistant's turns are marked. #}
{% for m in messages %}
    {% if m.role == 'assistant' %}
{{ '<a>' }}{% generation %}{{ m.content if m.content else '' }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}</a>{% endgeneration %}

    {% elif m.role == 'system' and not loop.first %}
        {% continue %}
    {% else %}
<{{ m.role | upper }}>{{ m['content'] | string | replace('\\n', '\\\\n') }}
    {% endif %}
    {% if loop.index > 6 %}{% break %}{% endif %}
{% else %}
empty
{% endfor %}
{{ '<a>' if add_generation_prompt }}""",
    "reasoning": """{%- set ns = namespace(last=-1, seen=false) %}
{%- for m in messages[::-1] %}
    {%- set index = messages | length - 1 - loop.index0 %}
    {%- if m.role == 'user' and not ns.seen %}
        {%- set ns.last = index %}
        {%- set ns.seen = true %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set content = m.content if m.content is string else '' %}
    {%- set thought = '' %}
    {%- if m.reasoning_content is defined and m.reasoning_content is not none %}
        {%- set thought = m.reasoning_content %}
    {%- elif '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if m.role == 'assistant' and (loop.index0 > ns.last or loop.last) and thought %}
        {{- m.role ~ ':<think>\\n' ~ thought.strip() ~ '\\n</think>\\n' ~ content }}
    {%- else %}
        {{- m.role ~ ':' ~ content }}
    {%- endif %}
    {{- '\\n' if not loop.last else '.' }}
    {%- if loop.previtem is defined and loop.previtem.role == m.role %}{{ '(again)' }}{% endif %}
    {%- if loop.nextitem and loop.nextitem.role == 'tool' %}{{ '(a tool follows)' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt and enable_thinking is defined and enable_thinking is false %}
    {{- '<think>\\n\\n</think>' }}
{%- endif %}""",
    "tools": """{%- macro kind(schema, depth=0) -%}
    {%- if schema.type is sequence and schema.type is not string -%}
        {{- schema.type | join(' | ') -}}
    {%- elif schema.type == 'array' -%}
        {{- kind(schema['items'], depth=depth + 1) ~ '[]' -}}
    {%- elif schema.type == 'object' -%}
        {%- set ns = namespace(first=true) -%}
        {{- '{' -}}
        {%- for name, value in schema.properties | default({}, true) | dictsort -%}
            {{- '' if ns.first else ', ' -}}{%- set ns.first = false -%}
            {{- name ~ ('' if name in schema.required | default([]) else '?') ~ ': ' ~ kind(value, depth + 1) -}}
        {%- endfor -%}
        {{- '}' -}}
    {%- else -%}
        {{- schema.type | upper -}}{%- if schema.enum %}{{ '=' ~ schema.enum | map('upper') | list | tojson }}{% endif -%}
        {%- if schema.default is defined %} default {{ schema.default | tojson }}{% endif -%}
    {%- endif -%}
    {%- if depth == 0 %};{% endif -%}
{%- endmacro -%}
{%- if tools is iterable and tools | length > 0 %}
Tools ({{ tools | length }}) on {{ strftime_now('%d %b %Y') }}:
{% for tool in tools if tool.function is mapping %}
    {%- for key, value in tool.function.items() if key not in ('parameters', 'name') %}
        {{- key.capitalize() }}: {{ value | tojson(ensure_ascii=true) if value is not string else value.split('\\n') | join(' / ') }}
{% endfor %}
    {{- tool.function.name }}{{ kind(tool.function.parameters) }}
{{ tool | tojson(indent=2) }}
{% endfor %}
{%- endif %}
{%- for m in messages %}
    {%- set calls %}
        {%- for call in m.get('tool_calls') or [] %}
            {%- set call = call.function if call.function is defined else call %}
            {%- if call.arguments is mapping %}
                {%- for k, v in call.arguments | items %}
                    {{- k ~ '=' ~ (v | tojson | safe if v is mapping or v is none or v is boolean else v | string) ~ ';' }}
                {%- endfor %}
            {%- else %}{{ call.arguments }}{% endif %}
        {%- endfor %}
    {%- endset %}
    {{- '[' ~ loop.index ~ '/' ~ loop.length ~ ' ' ~ m.role | capitalize ~ ']' ~ (calls | trim) }}
    {%- if m.content is mapping %}{{ m.content.values() | list | length }}
    {%- elif m.content is string and m.content.startswith(('{', '[')) and m.content.endswith('}') %}{{ m.content[1:-1] | lower }}
    {%- elif m.content is none %}{{ 'None!' }}
    {%- else %}{{ m.content }}{% endif %}
{%- endfor %}""",
    "parts": """{%- macro words(content) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content | selectattr('type', 'equalto', 'text') -%}{{ part.text | trim }}{{ '' if loop.last else ' ' }}{%- endfor -%}
        {{- content | rejectattr('type', 'equalto', 'text') | list | length or '' -}}
    {%- elif content is undefined or content is none -%}{{ '' }}
    {%- else -%}{{ raise_exception('what is ' + content | string + '?') }}{%- endif -%}
{%- endmacro -%}
{%- if messages[0].role == 'system' -%}
    {%- set first, rest = messages[0].content, messages[1:] -%}
{%- else -%}
    {%- set first, rest = '', messages -%}
{%- endif -%}
{%- for m in rest -%}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('roles must alternate') -}}
    {%- endif -%}
    {%- if loop.first and first -%}{{- '<<' ~ words(first) ~ '>>\\n' -}}{%- endif -%}
    {{- '%s' if m.role == 'assistant' and false else words(m.content) -}}{{- eos_token if m.role == 'assistant' else ' => ' -}}
{%- endfor -%}
{{- rest | map(attribute='role') | reject('equalto', 'user') | map('upper') | join('+') -}}
{%- set total = rest | length * 2 - 1 -%}
{{- range(1, total, 3) | list ~ total // 2 ~ -total % 4 -}}""",
}
