# A prompt, streamed and whole, a conversation, a schema, a tool, a completion
set -e
export LLM_USER_PATH="$PWD"
cat > keys.json <<JSON
{ "here": "$KEY" }
JSON
cat > extra-openai-models.yaml <<YAML
- { model_id: small, model_name: small, api_base: "$SMALL/v1", api_key_name: here, supports_schema: true, supports_tools: true }
- { model_id: small-text, model_name: small, api_base: "$SMALL/v1", api_key_name: here, completion: true }
- { model_id: agent, model_name: agent, api_base: "$AGENT/v1", api_key_name: here, supports_tools: true }
YAML
test "$(llm -m small "Reverse the word robot.")" = tobor
test "$(llm -m small --no-stream -o top_p 0.9 "Reverse the word robot.")" = tobor
test "$(llm -m small -c "Reverse the word robot.")" = tobor
llm -m small-text "Reverse the word robot."
llm -m small --no-stream --schema "age int" -o max_tokens 200 -o seed 1 "A person." | tee said.json
python -c 'import json; assert isinstance(json.load(open("said.json"))["age"], int)'
cat > tools.py <<PYTHON
import subprocess

def bash(command: str) -> str:
    "Runs a command."
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
PYTHON
llm -m agent --functions tools.py "Write the proof." | tee said.txt
grep -q "The command said: safelight" said.txt
test "$(cat proof.txt)" = safelight
