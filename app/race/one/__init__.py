"""One prompt, live in all lanes, and gone through afterwards."""
