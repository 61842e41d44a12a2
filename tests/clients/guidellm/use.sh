# Eight streamed chats, two at a time, with running usage
set -e
export HF_HUB_OFFLINE=1 GUIDELLM__LOGGING__CONSOLE_LOG_LEVEL=WARNING
for _ in 1 2 3 4 5 6 7 8; do echo '{"prompt": "Reverse the word robot."}'; done > prompts.jsonl
guidellm run --disable-console-interactive \
  --backend "kind=openai_http,target=$SMALL,model=small,api_key=$KEY" \
  --profile kind=concurrent,streams=2 --constraint kind=max_requests,count=8 \
  --data kind=json_file,path=prompts.jsonl --tokenizer "kind=huggingface_auto,model=$WEIGHTS" \
  --output kind=json,path=said.json
python -c '
import json
(one,) = json.load(open("said.json"))["benchmarks"]
requests = one["requests"]
assert len(requests["successful"]) == 8 and not requests["errored"], requests
assert all(request["output"] == "tobor" for request in requests["successful"]), requests
'
