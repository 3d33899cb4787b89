package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// valueReasons are the reasons that the code takes from values of the API instead of constants
// and literals of its own: node conditions, and the reasons of a resize.
var valueReasons = []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Infeasible", "Deferred", "Error",
	"TerminationByKubelet"}

// resourceReasons is the prefix of the reasons that end with the name of a resource.
const resourceReasons = "OutOf"

// codeReasons returns the reasons of events, pods, containers and conditions that the code sets:
// constants whose name begins with reason, literal reasons of events, and literal Reason fields.
func codeReasons(t *testing.T) map[string]bool {
	t.Helper()
	reasons := map[string]bool{}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && text != resourceReasons {
				reasons[text] = true
			}
		}
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasPrefix(strings.ToLower(name.Name), "reason") && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Event" && len(n.Args) == 4 {
				add(n.Args[2])
			}
		case *ast.CompositeLit:
			if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Cause" && len(n.Elts) > 0 {
				add(n.Elts[0])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				add(n.Value)
			}
		}
		return true
	}
	inspectCode(t, visit, "cluster", "daemon", "cri", "gc", "manifest", "node", "probe", "supervisor")
	for _, reason := range valueReasons {
		reasons[reason] = true
	}
	return reasons
}

const reasonName = "`([A-Z][A-Za-z]+(?:-[a-z]+)?)`"

// Each reason that the code sets is in the tables of reasons.md, and each reason there is in
// the code.
func TestReasonsAreDocumented(t *testing.T) {
	section, found := docPages(t)["reasons.md"]
	if !found {
		t.Fatal("there is no reasons.md")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(section, -1) {
		for _, match := range regexp.MustCompile(reasonName).FindAllStringSubmatch(row[1], -1) {
			documented[match[1]] = true
		}
	}
	code := codeReasons(t)
	for reason := range code {
		if !documented[reason] {
			t.Errorf("reasons.md: the reason %s is not documented", reason)
		}
	}
	for reason := range documented {
		if !code[reason] && !strings.HasPrefix(reason, resourceReasons) {
			t.Errorf("reasons.md: no event, pod, container or condition has the reason %s", reason)
		}
	}
	if len(code) < 80 {
		t.Errorf("only %d reasons found", len(code))
	}
}

// Each reason that a page names in a sentence about events, reasons or waiting is in the code.
func TestReasonsInDocumentationExist(t *testing.T) {
	code := codeReasons(t)
	list := regexp.MustCompile("(?:\\b[Ee]vents?|\\b[Rr]easons?|\\bwaits?\\s+with)(?:\\s+are)?[\\s,]+(" + reasonName +
		"(?:,?(?:\\s+(?:or|and))?\\s+" + reasonName + ")*)")
	found := 0
	for page, text := range docPages(t) {
		for _, phrase := range list.FindAllStringSubmatch(text, -1) {
			for _, match := range regexp.MustCompile(reasonName).FindAllStringSubmatch(phrase[1], -1) {
				found++
				if !code[match[1]] && !strings.HasPrefix(match[1], resourceReasons) {
					t.Errorf("%s: no event, pod, container or condition has the reason %s", page, match[1])
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d reasons found", found)
	}
}
