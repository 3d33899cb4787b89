package cri

import (
	"fmt"
	"strings"
)

// Expand replaces each $(NAME) in text with the value of NAME. $$ stands for $,
// so that $$(NAME) becomes $(NAME). A reference to a name without a value is kept
// as written, and so is a $ that starts no reference.
func Expand(text string, values map[string]string) string {
	return expand(text, func(name string) string {
		if value, known := values[name]; known {
			return value
		}
		return "$(" + name + ")"
	})
}

// ExpandStrictly is Expand for a text that is useless unless every name is known:
// a name without a value is an error.
func ExpandStrictly(text string, values map[string]string) (string, error) {
	var err error
	expanded := expand(text, func(name string) string {
		value, known := values[name]
		if !known && err == nil {
			err = fmt.Errorf("variable %q of %q is not set in the container", name, text)
		}
		return value
	})
	return expanded, err
}

// expand replaces each reference with the result of value.
func expand(text string, value func(name string) string) string {
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
				out.WriteString(value(name))
				text = after
				continue
			}
		}
		out.WriteByte('$')
	}
}

// expandAll expands each text with the final environment.
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
