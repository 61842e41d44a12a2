"""The widget, the runner and the saver that pages share if they run many items one after the other."""
