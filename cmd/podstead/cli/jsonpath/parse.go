package jsonpath

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Template is a parsed template.
type Template struct{ nodes []node }

// node is a part of a template: text, a path, or a range with its body.
type node struct {
	text string
	path *path
	body []node
	// isRange says that body is repeated for each value of path.
	isRange bool
}

// path is steps from the root object, or from the current one after @ and in a range.
type path struct {
	current bool
	steps   []step
	// literal is a value in place of a path.
	literal any
	isValue bool
}

// step is one of a path. Exactly one field is set besides quoted.
type step struct {
	field string
	// quoted says that the name of the field stood in quotes.
	quoted   bool
	wildcard bool
	descend  bool
	slice    *slice
	union    []step
	filter   *filter
}

// slice is [from:to:by]; an index is one of length one.
type slice struct {
	from, to, by *int
	index        bool
}

// filter is ?(left op right), or ?(left) for what is there.
type filter struct {
	left, right *path
	op          string
}

// Parse reads a template such as {.items[*].metadata.name}.
func Parse(text string) (*Template, error) {
	p := &parser{rest: text}
	nodes, closed, err := p.nodes(false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	case closed:
		return nil, fmt.Errorf("jsonpath %q: {end} without {range}", text)
	}
	return &Template{nodes}, nil
}

// ParsePath reads a single path in any of the forms that kubectl takes:
// {.a.b}, .a.b or a.b.
func ParsePath(text string) (*Template, error) {
	trimmed := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(trimmed, "{"); ok && strings.HasSuffix(inner, "}") {
		trimmed = strings.TrimSuffix(inner, "}")
	}
	if trimmed == "" {
		return nil, fmt.Errorf("jsonpath %q: is empty", text)
	}
	if !strings.ContainsAny(trimmed[:1], ".$[@") {
		trimmed = "." + trimmed
	}
	return Parse("{" + trimmed + "}")
}

type parser struct{ rest string }

// nodes reads until the end of the template or, inside a range, its {end}.
func (p *parser) nodes(within bool) (list []node, closed bool, err error) {
	for p.rest != "" {
		open := strings.IndexByte(p.rest, '{')
		if open != 0 {
			if open < 0 {
				open = len(p.rest)
			}
			list = append(list, node{text: p.rest[:open]})
			p.rest = p.rest[open:]
			continue
		}
		p.rest = p.rest[1:]
		p.space()
		switch word := p.word(); word {
		case "range":
			n := node{isRange: true}
			if n.path, err = p.path(); err != nil {
				return nil, false, err
			}
			if err = p.close(); err != nil {
				return nil, false, err
			}
			var ended bool
			if n.body, ended, err = p.nodes(true); err != nil {
				return nil, false, err
			}
			if !ended {
				return nil, false, fmt.Errorf("{range} without {end}")
			}
			list = append(list, n)
		case "end":
			if err = p.close(); err != nil {
				return nil, false, err
			}
			return list, true, nil
		default:
			p.rest = word + p.rest
			for first := true; first || p.rest != "" && p.rest[0] != '}'; first = false {
				n := node{}
				if n.path, err = p.path(); err != nil {
					return nil, false, err
				}
				list = append(list, n)
				p.space()
			}
			if err = p.close(); err != nil {
				return nil, false, err
			}
		}
	}
	if within {
		return list, false, nil
	}
	return list, false, nil
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// word takes letters.
func (p *parser) word() string {
	n := strings.IndexFunc(p.rest, func(r rune) bool { return !unicode.IsLetter(r) })
	if n < 0 {
		n = len(p.rest)
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

func (p *parser) close() error {
	p.space()
	if !strings.HasPrefix(p.rest, "}") {
		if p.rest == "" {
			return fmt.Errorf("a } is missing at the end")
		}
		return fmt.Errorf("%q: must be a path, such as .metadata.name, or }", p.rest)
	}
	p.rest = p.rest[1:]
	return nil
}

// path reads a path, or a value: a text in quotes, a number, true or false.
func (p *parser) path() (*path, error) {
	p.space()
	switch {
	case p.rest == "":
		return nil, fmt.Errorf("a path is missing")
	case p.rest[0] == '"' || p.rest[0] == '\'':
		text, err := p.quoted()
		return &path{literal: text, isValue: true}, err
	case p.rest[0] == '-' || p.rest[0] >= '0' && p.rest[0] <= '9':
		n := strings.IndexFunc(p.rest, func(r rune) bool { return !strings.ContainsRune("-+.eE0123456789", r) })
		if n < 0 {
			n = len(p.rest)
		}
		number, err := strconv.ParseFloat(p.rest[:n], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: is no number", p.rest[:n])
		}
		p.rest = p.rest[n:]
		return &path{literal: number, isValue: true}, nil
	case p.rest[0] == '$':
		p.rest = p.rest[1:]
		return p.steps(&path{})
	case p.rest[0] == '@':
		p.rest = p.rest[1:]
		return p.steps(&path{current: true})
	case p.rest[0] == '.' || p.rest[0] == '[':
		return p.steps(&path{current: true})
	}
	switch word := p.word(); word {
	case "true", "false":
		return &path{literal: word == "true", isValue: true}, nil
	default:
		return nil, fmt.Errorf("%q: must be a path, such as .metadata.name", word+p.rest)
	}
}

func (p *parser) steps(to *path) (*path, error) {
	for p.rest != "" {
		switch {
		case strings.HasPrefix(p.rest, ".."):
			p.rest = p.rest[1:]
			if strings.HasPrefix(p.rest, ".[") {
				p.rest = p.rest[1:]
			}
			to.steps = append(to.steps, step{descend: true})
		case p.rest[0] == '.':
			p.rest = p.rest[1:]
			if name := p.name(); name == "*" {
				to.steps = append(to.steps, step{wildcard: true})
			} else if name != "" {
				to.steps = append(to.steps, step{field: name})
			} else if p.rest != "" && !strings.ContainsRune("[}. ", rune(p.rest[0])) {
				return nil, fmt.Errorf("%q: must be the name of a field", p.rest)
			}
		case p.rest[0] == '[':
			p.rest = p.rest[1:]
			s, err := p.brackets()
			if err != nil {
				return nil, err
			}
			to.steps = append(to.steps, s)
		default:
			return to, nil
		}
	}
	return to, nil
}

// name takes the name of a field; \ before a character takes it as it is.
func (p *parser) name() string {
	var b strings.Builder
	for p.rest != "" {
		r, size := utf8.DecodeRuneInString(p.rest)
		if r == '\\' && len(p.rest) > 1 {
			p.rest = p.rest[1:]
			r, size = utf8.DecodeRuneInString(p.rest)
		} else if strings.ContainsRune(".[]{}()=!<>, \t\n'\"", r) {
			break
		}
		b.WriteRune(r)
		p.rest = p.rest[size:]
	}
	return b.String()
}

func (p *parser) quoted() (string, error) {
	quote := p.rest[0]
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			switch p.rest[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			default:
				b.WriteByte(p.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("the quote of %s is not closed", p.rest)
}

// brackets reads what stands between [ and ].
func (p *parser) brackets() (step, error) {
	if strings.HasPrefix(p.rest, "?(") {
		p.rest = p.rest[2:]
		return p.filter()
	}
	var parts []step
	for {
		p.space()
		s, err := p.part()
		if err != nil {
			return step{}, err
		}
		parts = append(parts, s)
		p.space()
		switch {
		case strings.HasPrefix(p.rest, ","):
			p.rest = p.rest[1:]
		case strings.HasPrefix(p.rest, "]"):
			p.rest = p.rest[1:]
			if len(parts) == 1 {
				return parts[0], nil
			}
			return step{union: parts}, nil
		default:
			return step{}, fmt.Errorf("[%s: a ] is missing", p.rest)
		}
	}
}

func (p *parser) part() (step, error) {
	switch {
	case strings.HasPrefix(p.rest, "*"):
		p.rest = p.rest[1:]
		return step{wildcard: true}, nil
	case p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"'):
		name, err := p.quoted()
		return step{field: name, quoted: true}, err
	}
	n := strings.IndexFunc(p.rest, func(r rune) bool { return !strings.ContainsRune("-0123456789:", r) })
	if n <= 0 {
		return step{}, fmt.Errorf("[%s: must be an index, a slice, *, ?( ) or a name in quotes", p.rest)
	}
	bounds := strings.Split(p.rest[:n], ":")
	p.rest = p.rest[n:]
	if len(bounds) > 3 {
		return step{}, fmt.Errorf("[%s]: a slice is from:to:step", strings.Join(bounds, ":"))
	}
	var s slice
	for i, to := range []**int{&s.from, &s.to, &s.by}[:len(bounds)] {
		if bounds[i] == "" {
			continue
		}
		number, err := strconv.Atoi(bounds[i])
		if err != nil {
			return step{}, fmt.Errorf("[%s]: is no number", bounds[i])
		}
		*to = &number
	}
	s.index = len(bounds) == 1
	if s.by != nil && *s.by <= 0 {
		return step{}, fmt.Errorf("the step of a slice must be 1 or more")
	}
	return step{slice: &s}, nil
}

func (p *parser) filter() (step, error) {
	f := &filter{}
	var err error
	if f.left, err = p.path(); err != nil {
		return step{}, err
	}
	p.space()
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if strings.HasPrefix(p.rest, op) {
			f.op, p.rest = op, p.rest[len(op):]
			if f.right, err = p.path(); err != nil {
				return step{}, err
			}
			p.space()
			break
		}
	}
	if !strings.HasPrefix(p.rest, ")]") {
		return step{}, fmt.Errorf("%q: the filter must end in )]", p.rest)
	}
	p.rest = p.rest[2:]
	return step{filter: f}, nil
}
