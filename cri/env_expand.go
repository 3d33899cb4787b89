package cri

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Linux starts no process with more, in bytes. References that are nested to some depth
// would otherwise expand to all memory there is.
const (
	// MaxExpanded is the maximum length of one argument or the value of one variable.
	MaxExpanded = 128 << 10
	// MaxEnvironment is the maximum length of all arguments and variables of a container.
	MaxEnvironment = 2 << 20
)

// The errors of texts that are too long.
var (
	ErrExpanded = errors.New("expands to more than 128 KiB, which Linux permits for no argument and no variable; " +
		"shorten it or what it refers to")
	ErrEnvironment = errors.New("the arguments and variables of the container are longer than 2 MiB in all, with which " +
		"Linux starts no process; shorten them, or mount long values as files")
)

// Expand replaces each $(NAME) in text with the value of NAME. $$ stands for $,
// so that $$(NAME) becomes $(NAME). A reference to a name without a value is kept
// as written, and so is a $ that starts no reference. With ErrExpanded the result ends
// after MaxExpanded bytes or little more.
func Expand(text string, values map[string]string) (string, error) {
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
	expanded, long := expand(text, func(name string) string {
		value, known := values[name]
		if !known && err == nil {
			err = fmt.Errorf("variable %q of %q is not set in the container", name, text)
		}
		return value
	})
	if err == nil {
		err = long
	}
	return expanded, err
}

// expand replaces each reference with the result of value.
func expand(text string, value func(name string) string) (string, error) {
	if !strings.Contains(text, "$") {
		return text, tooLong(len(text))
	}
	var out strings.Builder
	for {
		if err := tooLong(out.Len()); err != nil {
			return out.String(), err
		}
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), tooLong(out.Len())
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

func tooLong(length int) error {
	if length > MaxExpanded {
		return ErrExpanded
	}
	return nil
}

// expandCommand expands the command and the arguments of a container with its final
// environment.
func expandCommand(c *v1.Container, env []EnvVar) (command, args []string, err error) {
	values := make(map[string]string, len(env))
	size := 0
	for _, e := range env {
		values[e.Name] = e.Value
		size += len(e.Name) + len(e.Value)
	}
	expandAll := func(field string, texts []string) (out []string, err error) {
		for i, text := range texts {
			expanded, err := Expand(text, values)
			if err != nil {
				return nil, fmt.Errorf("%s[%d] %w", field, i, err)
			}
			if size += len(expanded); size > MaxEnvironment {
				return nil, ErrEnvironment
			}
			out = append(out, expanded)
		}
		return out, nil
	}
	if command, err = expandAll("command", c.Command); err == nil {
		args, err = expandAll("args", c.Args)
	}
	return command, args, err
}
