"""The text of a gap by fim.complete, whole and streamed, with a seed, stops and a name of Mistral's own models."""

import os

from mistralai.client import Mistral

client = Mistral(api_key=os.environ["KEY"], server_url=os.environ["AGENT"])
asked = {"model": "codestral-latest", "prompt": "# Say «number / 2; done».\nreturn ", "suffix": "\n\nprint(half(4))"}

whole = client.fim.complete(**asked, max_tokens=32, temperature=0, random_seed=5, min_tokens=1, metadata={"from": "x"})
assert whole.choices[0].message.content == "number / 2; done"
assert whole.choices[0].finish_reason == "stop"
assert whole.usage.completion_tokens == len("number / 2; done")
assert whole.model == "agent"

with client.fim.stream(**asked, stop=[";"]) as stream:
    chunks = [event.data for event in stream]
assert "".join(chunk.choices[0].delta.content for chunk in chunks) == "number / 2"
assert chunks[-1].choices[0].finish_reason == "stop"

chat = client.chat.complete(model="agent", messages=[{"role": "user", "content": "Say «yes»."}])
assert chat.choices[0].message.content == "yes"
