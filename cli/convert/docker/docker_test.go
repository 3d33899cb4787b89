package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		``:                      nil,
		`httpd -f  -p 80`:       {"httpd", "-f", "-p", "80"},
		`sh -c 'a "b" \c'`:      {"sh", "-c", `a "b" \c`},
		`sh -c "a \"b\" \c $X"`: {"sh", "-c", `a "b" \c $X`},
		`a\ b '' ""`:            {"a b", "", ""},
		"a \\\n b":              {"a", "b"},
		`--x="a b"c`:            {"--x=a bc"},
	} {
		if got, err := SplitWords(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`'`, `a "b`, `a\`} {
		if got, err := SplitWords(text); err == nil {
			t.Errorf("%s: %q, want an error", text, got)
		}
	}
}

// What Kubernetes expands to the word again: $$ is a dollar sign, $(NAME) a variable.
func TestEscape(t *testing.T) {
	for word, want := range map[string]string{
		"$HOME": "$HOME", "$(date)": "$$(date)", "$$": "$$$$", "a$b$(c)": "a$$b$$(c)", "${X}": "${X}",
	} {
		if got := Escape(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]string{
		"80":                    "[{ 0 80 tcp}]",
		"8080:80":               "[{ 8080 80 tcp}]",
		"127.0.0.1:8080:80/udp": "[{127.0.0.1 8080 80 udp}]",
		"[::1]:8080:80":         "[{::1 8080 80 tcp}]",
		"::1:8080:80":           "[{::1 8080 80 tcp}]",
		"127.0.0.1::80":         "[{127.0.0.1 0 80 tcp}]",
		"3000-3001:4000-4001":   "[{ 3000 4000 tcp} { 3001 4001 tcp}]",
		"3000-3001":             "[{ 0 3000 tcp} { 0 3001 tcp}]",
		"9000-9010:80":          "[{ 9000 80 tcp}]",
	} {
		got, chosen, err := ParsePorts(text)
		if err != nil || fmt.Sprint(got) != want || chosen != strings.HasPrefix(text, "9000-") {
			t.Errorf("%s: %v, %t, %v; want %s", text, got, chosen, err, want)
		}
	}
	for _, text := range []string{"", "x", "0", "65536", "80-70", "1-2:3-5", "1-5000", "80/icmp", "a.b:80:80"} {
		if got, _, err := ParsePorts(text); err == nil {
			t.Errorf("%s: %v, want an error", text, got)
		}
	}
}

func TestParseVolume(t *testing.T) {
	for text, want := range map[string]string{
		"/data":       "{ /data []}",
		"/data:ro":    "{ /data [ro]}",
		"db:/data":    "{db /data []}",
		"./a:/b:ro,z": "{./a /b [ro z]}",
		"/a:/b":       "{/a /b []}",
	} {
		if got, err := ParseVolume(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "data", ":/data", "a:b", "a:/b:c:d"} {
		if got, err := ParseVolume(text); err == nil {
			t.Errorf("%s: %v, want an error", text, got)
		}
	}
}

func TestSizesAndTimes(t *testing.T) {
	for text, want := range map[string]int64{"1024": 1024, "64m": 64 << 20, "64M": 64 << 20, "1.5g": 3 << 29,
		"512kb": 512 << 10, "1GiB": 1 << 30, "10b": 10, "0": 0} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "lots", "1x", "1e300g", "NaN", "Inf"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%s: %d, want an error", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"10s": 10 * time.Second, "1m30s": 90 * time.Second,
		"500ms": time.Second / 2, "30": 30 * time.Second, "1d2h": 26 * time.Hour} {
		if got, err := ParseDuration(text, time.Second); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "often", "-1s", "xd"} {
		if got, err := ParseDuration(text, 0); err == nil {
			t.Errorf("%s: %v, want an error", text, got)
		}
	}
}

func TestParseEnvFile(t *testing.T) {
	text := "A=1\n# comment\nexport B = two words # comment\nC='$X'\nD=\"$X\\n\"\nE\nF=\"a\nb\"\nG=\n"
	got, err := ParseEnvFile(text, func(value string) (string, error) { return strings.ReplaceAll(value, "$X", "x"), nil })
	want := "[{1 A 1 true} {3 B two words true} {4 C $X true} {5 D x\n true} {6 E  false} {7 F a\nb true} {9 G  true}]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	for _, text := range []string{"=x", "two words=x", "A=\"open"} {
		if got, err := ParseEnvFile(text, nil); err == nil {
			t.Errorf("%s: %v, want an error", text, got)
		}
	}
}
