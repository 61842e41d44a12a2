"""One prompt in all lanes, shown live and replayed afterwards."""
