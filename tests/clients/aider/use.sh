# An edit applied and committed, by a streamed chat
set -e
git init -q .
git config user.name Somebody
git config user.email somebody@example.com
echo "print('hello')" > said.py
git add said.py
git commit -qm "Begin"
printf 'Say «said.py\n```\nprint("safelight")\n```\n»' > asked.txt
export OPENAI_API_BASE="$AGENT/v1" OPENAI_API_KEY="$KEY"
aider --model openai/agent --edit-format whole --yes-always --no-check-update --no-show-model-warnings \
  --analytics-disable --no-gitignore --no-pretty --message-file asked.txt said.py
test "$(python3 said.py)" = safelight
test "$(git log --oneline -- said.py | wc -l)" = 2
