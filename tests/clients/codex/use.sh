# A command run to its end by /v1/responses, streamed, with all of its tools, and a tool of an MCP server
set -e
mkdir -p .codex
cat > .codex/config.toml <<TOML
model = "agent"
model_provider = "safelight"
[model_providers.safelight]
name = "Safelight"
base_url = "$AGENT/v1"
env_key = "KEY"
wire_api = "responses"
TOML
codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "Write the proof." | tee said.txt
grep -q "The command said: safelight" said.txt
test "$(cat proof.txt)" = safelight

# a tool of an MCP server, which codex sends in a namespace of its own
cat >> .codex/config.toml <<TOML
[mcp_servers.example]
command = "$PYTHON"
args = ["-m", "engine.tools.example_server"]
TOML
codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    'Say «<|tool_call>call:mcp__example__calculate{expression:<|"|>6*7<|"|>}<tool_call|>».' | tee said.txt
grep -q "The command said: 42" said.txt
