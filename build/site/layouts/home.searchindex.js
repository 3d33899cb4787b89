{{- /* What search.js searches: one entry for each section of each page, with its URL, the title of its page, its
heading and its text. */ -}}
{{- $entries := slice -}}
{{- range partialCached "pages.html" . -}}
  {{- range .pages -}}
    {{- $page := partial "title.html" . -}}
    {{- $url := strings.TrimPrefix "/" .RelPermalink -}}
    {{- range $i, $section := split .Content "<h2 id=\"" -}}
      {{- $anchor := "" -}}
      {{- $heading := "" -}}
      {{- $text := $section -}}
      {{- if $i -}}
        {{- $anchor = print "#" (index (split $section "\"") 0) -}}
        {{- $heading = index (split (index (split $section "</h2>") 0) "\">") 1 -}}
        {{- $heading = replaceRE ` <a class="anchor".*` "" $heading | plainify | htmlUnescape -}}
        {{- $text = strings.TrimPrefix (index (split $section "</h2>") 0) $section -}}
      {{- end -}}
      {{- $text = replaceRE `<h1.*</h1>` "" $text -}}
      {{- $text = replaceRE `</(td|th|li|p|h3|h4)>` " $0" $text -}}
      {{- $text = $text | plainify | htmlUnescape -}}
      {{- $text = replaceRE `\s+` " " $text | strings.TrimSpace -}}
      {{- $entries = $entries | append (dict "url" (print $url $anchor) "page" $page "heading" $heading "text" $text) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
const searchIndex = {{ $entries | jsonify (dict "noHTMLEscape" false) }};
