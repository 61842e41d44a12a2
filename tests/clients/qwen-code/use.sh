# A command run to its end by /v1/chat/completions, streamed, with all of its tools
set -e
export OPENAI_BASE_URL="$AGENT/v1" OPENAI_API_KEY="$KEY" OPENAI_MODEL=agent
qwen --auth-type openai --yolo --prompt "Write the proof." | tee said.txt
grep -q "The command said: safelight" said.txt
test "$(cat proof.txt)" = safelight
