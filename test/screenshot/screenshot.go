// Package screenshot draws what a terminal shows as an SVG image, whose text can be read back.
package screenshot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// span is a part of a line in one style.
type span struct {
	text string
	// style holds the parameters of the escape sequence that selected it, such as "32"; it is
	// empty for plain text.
	style string
}

const (
	eraseLine = "\r\x1b[K"
	// charWidth and lineHeight are in pixels. The width is 0.6 em, that of most fonts.
	charWidth, lineHeight, fontSize = 8.4, 20, 14
	margin                          = 16
)

// fills are the colors of the styles that podstead prints, and that of a command ("1").
var fills = map[string]string{
	"": "#d0d7de", "1": "#ffffff", "2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff",
}

// Plain returns the text without escape sequences, as the terminal shows it in the end.
func Plain(output string) string {
	var b strings.Builder
	for _, line := range lines(output) {
		b.WriteString(plain(line) + "\n")
	}
	return b.String()
}

func plain(line []span) (text string) {
	for _, s := range line {
		text += s.text
	}
	return strings.TrimRight(text, " ")
}

// lines splits output into lines and styles.
func lines(output string) (all [][]span) {
	output = strings.TrimRight(strings.ReplaceAll(output, "\r\n", "\n"), "\n")
	for line := range strings.SplitSeq(output, "\n") {
		if at := strings.LastIndex(line, eraseLine); at >= 0 {
			line = line[at+len(eraseLine):]
		}
		all = append(all, spans(line))
	}
	return all
}

// spans splits a line at its escape sequences. Those that select no style are left out.
func spans(line string) (all []span) {
	style := ""
	for {
		text, rest, found := strings.Cut(line, "\x1b[")
		if text != "" {
			all = append(all, span{text, style})
		}
		if !found {
			return all
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return all
		}
		if rest[end] == 'm' {
			style = strings.TrimPrefix(rest[:end], "0")
		}
		line = rest[end+1:]
	}
}

// SVG draws the output of a terminal.
func SVG(title, output string) []byte {
	all := lines(output)
	columns := 0
	for _, line := range all {
		columns = max(columns, utf8.RuneCountInString(plain(line)))
	}
	width, height := int(float64(columns)*charWidth)+2*margin, len(all)*lineHeight+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" "+
		"font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"%d\">\n", width, height,
		fontSize)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#0d1117\"/>\n",
		escape(title))
	for i, line := range all {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\">", margin, margin+(i+1)*lineHeight-lineHeight/4)
		for _, s := range line {
			fill, ok := fills[s.style]
			if !ok {
				fill = fills[""]
			}
			fmt.Fprintf(&b, "<tspan fill=\"%s\">%s</tspan>", fill, escape(s.text))
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}

// Text returns the text of an image that SVG drew: a line for each line of the terminal.
func Text(svg []byte) (string, error) {
	var b strings.Builder
	decoder, inside, line := xml.NewDecoder(bytes.NewReader(svg)), false, ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if t.Name.Local == "text" {
				inside, line = true, ""
			}
		case xml.CharData:
			if inside {
				line += string(t)
			}
		case xml.EndElement:
			if t.Name.Local == "text" {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
				inside = false
			}
		}
	}
}
