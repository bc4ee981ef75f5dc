"""Small chat templates in the shapes of published ones, and the tokens that transformers reads.

python chat_peer.py FILE: run by a Python with transformers, writes the tokens of all `CASES`; those
of transformers 5.24 are in tests/tasks/seq2seq/chat_numbers.json. The tokenizer has a token for
each byte, so its numbers depend on no version.
"""

import datetime
import json
import pathlib
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

QWEN = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- elif not tools %}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
LLAMA = """\
{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
GEMMA = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {{ raise_exception('System role not supported') }}
{%- endif -%}
{%- for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Conversation roles must alternate') }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""
# Lines that only hold a block leave nothing; `generation` marks answers, and `tojson` keeps "<".
BLOCKS = """\
{% for message in messages %}
    {% if message['role'] == 'assistant' %}
    {% generation %}
{{ message['content'] }}{{ eos_token }}
    {% endgeneration %}
    {% continue %}
    {% endif %}
[{{ message['role'] }}]{{ {'é<': message['content']} | tojson }}
{% endfor %}
"""
TEMPLATES = {"qwen": QWEN, "llama": LLAMA, "gemma": GEMMA, "blocks": BLOCKS}
# Name -> template, system, variables.
CASES = {
    "qwen": ("qwen", "", {}),
    "qwen_system": ("qwen", "Answer yes or no.", {"enable_thinking": False}),
    "llama": ("llama", "", {}),
    "llama_system": ("llama", " Answer. ", {"date_string": "1 May 2001"}),
    "gemma": ("gemma", "", {}),
    "blocks": ("blocks", "Answer.", {}),
}
SOURCES = ["Ada met Ravi.", "  two\nlines \n", "{{ x }} {% if %} {source}", "<|im_end|> naïve 模型"]
DAY = (2024, 7, 26)
MARKS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>"]
MARKS += ["<|eot_id|>", "<start_of_turn>", "<end_of_turn>"]
BOS, EOS = MARKS[:2]


def make_tokenizer() -> Tokenizer:
    """Return a tokenizer with a token for each mark and each byte, and BOS before a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = {token: number for number, token in enumerate([*MARKS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(tokens, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, 0)]
    )
    return tokenizer


def main(path: str) -> None:
    """Write the tokens of all cases to a file."""
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import chat_template_utils

    class Day(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(*DAY)

    chat_template_utils.datetime = Day
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(), bos_token=BOS, eos_token=EOS
    )
    found = {}
    for name, (template, system, variables) in CASES.items():
        before = [{"role": "system", "content": system}] if system else []
        found[name] = [
            tokenizer.apply_chat_template(
                [*before, {"role": "user", "content": source}],
                chat_template=TEMPLATES[template],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
                **variables,
            )
            for source in SOURCES
        ]
    pathlib.Path(path).write_text(json.dumps(found, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
