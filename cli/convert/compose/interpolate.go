package compose

import (
	"errors"
	"fmt"
	"strings"
)

// maxExpansion bounds the length of a value after its variables are replaced.
const maxExpansion = 1 << 20

// maxNesting bounds how deep defaults may contain variables.
const maxNesting = 20

// variables replaces variables in values.
type variables struct {
	lookup func(name string) (string, bool)
	// unset is called for a variable that is not set and has no default.
	unset func(name string)
}

// expand replaces $NAME, ${NAME}, and ${NAME:-DEFAULT} with its variants (-, :?, ?, :+, +) in a
// text. $$ is a dollar sign.
func (v *variables) expand(text string, depth int) (string, error) {
	if depth > maxNesting {
		return "", errors.New("variables are nested too deeply")
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if b.Len() > maxExpansion {
			return "", errors.New("is too long with its variables")
		}
		if !found {
			return b.String(), nil
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			text = rest[1:]
		case strings.HasPrefix(rest, "{"):
			end := closingBrace(rest)
			if end < 0 {
				return "", errors.New("has ${ without a closing brace; write $$ for a dollar sign")
			}
			value, err := v.braced(rest[1:end], depth)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = rest[end+1:]
		default:
			name := nameOf(rest)
			if name == "" {
				return "", fmt.Errorf("has a dollar sign before %.10q; write $$ for a dollar sign", rest)
			}
			b.WriteString(v.value(name))
			text = rest[len(name):]
		}
	}
}

// closingBrace returns the index of the brace that closes the one at the start.
func closingBrace(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// nameOf returns the name of a variable at the start of a text.
func nameOf(text string) string {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9' {
			continue
		}
		return text[:i]
	}
	return text
}

// value returns the value of a variable.
func (v *variables) value(name string) string {
	value, set := v.lookup(name)
	if !set {
		v.unset(name)
	}
	return value
}

// braced returns the value of what is between the braces.
func (v *variables) braced(text string, depth int) (string, error) {
	name := nameOf(text)
	operator := text[len(name):]
	if name == "" {
		return "", fmt.Errorf("${%.20s} names no variable", text)
	}
	if operator == "" {
		return v.value(name), nil
	}
	orEmpty := operator[0] == ':'
	word := strings.TrimPrefix(operator, ":")
	if word == "" {
		return "", fmt.Errorf("${%.20s} is not a variable", text)
	}
	value, set := v.lookup(name)
	present := set && (value != "" || !orEmpty)
	switch word[0] {
	case '-':
		if present {
			return value, nil
		}
		return v.expand(word[1:], depth+1)
	case '+':
		if !present {
			return "", nil
		}
		return v.expand(word[1:], depth+1)
	case '?':
		if present {
			return value, nil
		}
		message, err := v.expand(word[1:], depth+1)
		if message == "" {
			message = "it is required"
		}
		return "",
			errors.Join(err, fmt.Errorf("the variable %s is not set: %s; set it in the environment or in .env", name, message))
	}
	return "", fmt.Errorf("${%.20s} is not a variable", text)
}
