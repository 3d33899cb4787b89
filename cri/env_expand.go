package cri

import "strings"

// Expand replaces each $(NAME) in text by the value of NAME. $$ stands for $,
// so that $$(NAME) is kept as $(NAME). A reference to a name without a value
// stays as it is written, and so does a $ that begins no reference.
func Expand(text string, values map[string]string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		text = rest
		if strings.HasPrefix(text, "$") {
			out.WriteByte('$')
			text = text[1:]
			continue
		}
		if inner, ok := strings.CutPrefix(text, "("); ok {
			if name, after, closed := strings.Cut(inner, ")"); closed {
				if value, known := values[name]; known {
					out.WriteString(value)
				} else {
					out.WriteString("$(" + name + ")")
				}
				text = after
				continue
			}
		}
		out.WriteByte('$')
	}
}

// expandAll expands each of a list with the final environment.
func expandAll(texts []string, env []EnvVar) []string {
	if len(texts) == 0 {
		return nil
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = Expand(text, values)
	}
	return out
}
