# Samples of the tag Service. One section for each operation: see CONTRIBUTING.md.

# operation: healthz
curl -sS --fail-with-body "$SCRIP_URL/healthz"

# operation: readyz
curl -sS --fail-with-body "$SCRIP_URL/readyz"

# operation: ping
# The response has no body: print the status.
curl -sS --fail-with-body "$SCRIP_URL/ping" -w "reachable: %{http_code}\n"

# operation: get_openapi
curl -sS --fail-with-body "$SCRIP_URL/openapi.json" \
  -o openapi.json -w "openapi.json: %{size_download} bytes of %{content_type}\n"

# operation: get_root
curl -sS --fail-with-body "$SCRIP_URL/" -o /dev/null -w "%{http_code} %{redirect_url}\n"

# operation: get_docs
curl -sS --fail-with-body "$SCRIP_URL/docs" \
  -o docs.html -w "docs.html: %{size_download} bytes of %{content_type}\n"

# operation: get_docs_style
curl -sS --fail-with-body "$SCRIP_URL/docs/style.css" \
  -o style.css -w "style.css: %{size_download} bytes of %{content_type}\n"
