package convert

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/manifest"
)

// seeds adds the files of testdata with one of the suffixes.
func seeds(f *testing.F, suffixes ...string) {
	found := 0
	for _, suffix := range suffixes {
		files, err := filepath.Glob("testdata/*/*" + suffix)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			found++
		}
	}
	if found == 0 {
		f.Fatal("no seeds")
	}
}

// checkResult fails unless the result of a conversion is accepted by the daemon.
func checkResult(t *testing.T, in Input) {
	result := Convert([]Input{in}, Options{Host: testHost(t.TempDir())})
	if result.Report.Count(report.Error) > 0 && len(result.Units) > 0 {
		t.Fatal("there is a result in spite of an error")
	}
	for _, u := range result.Units {
		text, err := Text(u)
		if err != nil {
			t.Fatal(err)
		}
		_, faults := manifest.NewLoader("node",
			manifest.ModeStrict).Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: "result", Data: text})
		for _, fault := range faults {
			if !fault.Warning {
				t.Fatalf("%v in\n%s", fault, text)
			}
		}
	}
}

func FuzzQuadlet(f *testing.F) {
	seeds(f, ".container", ".pod", ".volume", ".kube", ".network")
	f.Fuzz(func(t *testing.T, data []byte) { checkResult(t, Input{Name: "x.container", Data: data}) })
}

func FuzzCompose(f *testing.F) {
	seeds(f, "compose.yaml", "b.yaml")
	f.Fuzz(func(t *testing.T, data []byte) { checkResult(t, Input{Name: "compose.yaml", Data: data}) })
}

func FuzzWorkloads(f *testing.F) {
	seeds(f, "rendered.yaml", "all.yaml", "bad.yaml")
	f.Fuzz(func(t *testing.T, data []byte) { checkResult(t, Input{Name: "-", Data: data}) })
}

// A text is read as it was before it was written.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "yes", "Y", "0644", "1e3", "1:30", "null", "~", "a: b", "- x", "a\nb", "a\n\n", " a",
		"\ta\nb", "2001-01-01", "<<", "=", "#", "é", "\u0085x", "0x1f", "1_000", "!x", "&a", "*a", ".inf", "a\r\nb", "a \nb",
		"%x", "@x", "`x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip("JSON has no such text")
		}
		want := map[string]any{"kind": "ConfigMap", "data": map[string]any{"key": text, "key" + text: "x"},
			"list": []any{text}}
		data, err := Text(podbuild.Unit{Objects: []podbuild.Object{{Value: want}}})
		if err != nil {
			t.Skip(err) // not text
		}
		parts, faults := manifest.Parts("x", data)
		if len(faults) > 0 {
			for _, r := range text {
				if r == 0xfffd || r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 || r == 0xfeff {
					t.Skip("a manifest cannot contain it")
				}
			}
			t.Fatalf("%q is written as\n%s%v", text, data, faults)
		}
		if len(parts) != 1 || !reflect.DeepEqual(parts[0].Value, want) {
			t.Fatalf("%q is written as\n%s", text, data)
		}
	})
}

// Inputs that are large in memory or in time are refused.
func TestHostileInputs(t *testing.T) {
	bomb := "x0: &x0 [a,a,a,a,a,a,a,a,a,a]\n"
	for i := 1; i < 9; i++ {
		n, p := string(rune('0'+i)), string(rune('0'+i-1))
		bomb += "x" + n + ": &x" + n + " [*x" + p + ",*x" + p + ",*x" + p + ",*x" + p + ",*x" + p + ",*x" + p + ",*x" + p +
			",*x" + p + ",*x" + p + ",*x" + p + "]\n"
	}
	deep := make([]byte, 0, 20000)
	for range 5000 {
		deep = append(deep, "[["...)
	}
	wide := []byte("services: {web: {image: x}}\nx-list:\n")
	for range 300_000 {
		wide = append(wide, "- 1\n"...)
	}
	for name, in := range map[string]Input{
		"aliases": {Name: "compose.yaml", Data: []byte(bomb + "services: {web: {image: x, command: *x8}}\n")},
		"small aliases": {Name: "compose.yaml",
			Data: []byte(bomb + "services: {web: {image: x, command: [*x5, *x5, *x5]}}\n")},
		"depth":         {Name: "compose.yaml", Data: append([]byte("services: "), deep...)},
		"values":        {Name: "compose.yaml", Data: wide},
		"size":          {Name: "x.container", Data: make([]byte, 2<<20)},
		"manifest size": {Name: "x.yaml", Data: make([]byte, 11<<20)},
		"self include":  {Name: "compose.yaml", Data: []byte("include: [compose.yaml]\nservices: {web: {image: x}}\n")},
		"self extends":  {Name: "compose.yaml", Data: []byte("services: {a: {extends: b}, b: {extends: a}}\n")},
		"ports":         {Name: "compose.yaml", Data: []byte("services: {web: {image: x, ports: [\"1-60000:1-60000\"]}}\n")},
	} {
		begin := time.Now()
		result := Convert([]Input{in}, Options{Host: testHost(t.TempDir())})
		t.Logf("%s: %v", name, time.Since(begin))
		if result.Report.Count(report.Error) == 0 || len(result.Units) > 0 {
			t.Errorf("%s: no error, but %v", name, result.Report.Entries())
		} else if len(result.Report.Entries()) > 10 {
			t.Errorf("%s: %d entries", name, len(result.Report.Entries()))
		}
	}
}
