# Three answers at a time to a gap at the cursor in Neovim: streamed completions with a suffix, then the FIM route
set -e
git clone -q --depth 1 https://github.com/milanglacier/minuet-ai.nvim minuet
cat > setup.lua <<'END'
vim.opt.runtimepath:append("minuet")
local provider = vim.env.PROVIDER
require("minuet").setup {
    provider = provider,
    provider_options = {
        openai_fim_compatible = {
            api_key = "KEY", name = "Safelight", end_point = vim.env.AGENT .. "/v1/completions", model = "agent",
            optional = { max_tokens = 56, top_p = 0.9 },
        },
        codestral = { api_key = "KEY", end_point = vim.env.AGENT .. "/v1/fim/completions", optional = { max_tokens = 56 } },
    },
}
END
ask() { timeout 5 nvim --server ./editor.sock --remote-expr "luaeval('require(\"minuet.virtualtext\").action.$1')" 2> /dev/null; }
for provider in openai_fim_compatible codestral; do
  printf '# Say «number / 2».\ndef half(number):\n    return \n\nprint(half(4))\n' > half.py
  rm -f editor.sock
  PROVIDER=$provider nvim --headless -u setup.lua --listen ./editor.sock half.py < /dev/null > editor.log 2>&1 &
  editor=$!
  trap 'kill $editor' EXIT
  for _ in $(seq 100); do test -S ./editor.sock && break; sleep 0.1; done
  timeout 5 nvim --server ./editor.sock --remote-send '3GA'
  ask 'next()' > /dev/null
  for _ in $(seq 50); do
    sleep 0.2
    test "$(ask 'is_visible()')" = true && break
  done
  ask 'accept()' > /dev/null
  sleep 0.3
  timeout 5 nvim --server ./editor.sock --remote-send '<Esc>:w<CR>'
  sleep 0.5
  kill $editor
  cat editor.log half.py
  grep -qx '    return number / 2' half.py
done
trap - EXIT
