# Tools listed and called by its command line: over HTTP with a key and without, and over standard streams
set -e
http() { mcp-inspector --cli "$SMALL/mcp" --transport http --header "Authorization: Bearer $KEY" "$@"; }
stdio() { mcp-inspector --cli -e "PYTHONPATH=${PYTHONPATH:-.}" "$PYTHON" -m app mcp --model "$WEIGHTS" "$@"; }

http --method tools/list > listed.json
for name in generate decide infill sudoku inspect_run; do grep -q "\"name\": \"$name\"" listed.json; done
grep -q '"readOnlyHint": true' listed.json
for ask in http stdio; do
  $ask --method tools/call --tool-name generate --tool-arg 'prompt=Reverse the word robot.' --tool-arg seed=1 --tool-arg max_tokens=16 > said.json
  cat said.json
  grep -q '"finish_reason"' said.json
  grep -q '"isError": false' said.json
  $ask --method tools/call --tool-name generate --tool-arg 'promt=Reverse.' > refused.json || true  # newer ones fail then
  grep -q "'promt' is not known" refused.json
done
! mcp-inspector --cli "$SMALL/mcp" --transport http --method tools/list < /dev/null > none.json 2>&1
! grep -q '"generate"' none.json
