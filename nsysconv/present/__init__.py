"""Reports as people see them: documents, made of tables. Renderers write them."""
