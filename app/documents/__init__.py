"""Documents in prompts: PDF, Word, spreadsheets, books and folders of source code, read as Markdown in a process."""
