package compose

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest"
)

const (
	// maxIncluded bounds how many files are read.
	maxIncluded = 100
	// maxExtends bounds a chain of extends.
	maxExtends = 20
)

// topLevel are the fields of a Compose file that hold named things.
var topLevel = []string{"services", "volumes", "networks", "configs", "secrets"}

// loader reads Compose files.
type loader struct {
	host    *podbuild.Host
	report  *report.Report
	vars    variables
	dir     string
	main    []string
	env     map[string]string
	loaded  map[string]*tree.Node
	pending []string
	// at is the position of the value whose variables are replaced.
	at tree.Position
}

func newLoader(files []File, o Options, r *report.Report) *loader {
	l := &loader{host: &o.Host, report: r, env: map[string]string{}, loaded: map[string]*tree.Node{}}
	l.dir = o.Host.BaseDir(files[0].Name)
	for _, f := range files {
		l.main = append(l.main, f.Name)
	}
	l.vars = variables{
		lookup: func(name string) (string, bool) {
			if value, ok := l.host.LookupEnv(name); ok {
				return value, true
			}
			value, ok := l.env[name]
			return value, ok
		},
		unset: func(name string) {
			r.Lost(report.Field{At: l.at, Path: "$" + name}, "the variable "+name+" is not set: its value is empty",
				"set it in the environment or in .env, or write $$ for a dollar sign")
		},
	}
	l.readEnv(o.EnvFiles)
	return l
}

// readEnv reads .env, or the files that replace it.
func (l *loader) readEnv(files []string) {
	paths := files
	if len(files) == 0 {
		paths = []string{filepath.Join(l.dir, ".env")}
		if _, exists := l.host.Mode(paths[0]); !exists {
			return
		}
	}
	for _, path := range paths {
		f := report.Field{At: tree.Position{File: path}}
		data, err := l.host.ReadFile(path)
		if err != nil {
			l.report.Error(f, err.Error(), "")
			continue
		}
		lines, err := docker.ParseEnvFile(string(data), func(text string) (string, error) {
			l.at = f.At
			return l.vars.expand(text, 0)
		})
		if err != nil {
			l.report.Error(f, err.Error(), "must be lines of NAME=VALUE")
			continue
		}
		for _, line := range lines {
			if line.Set {
				l.env[line.Name] = line.Value
			}
		}
	}
}

// baseDir returns the directory that relative paths of a file begin at.
func (l *loader) baseDir(file string) string {
	if slices.Contains(l.main, file) {
		return l.dir
	}
	return l.host.BaseDir(file)
}

// load returns a file as a tree, with what it includes; nil after an error.
func (l *loader) load(name string, parts []manifest.Part) *tree.Node {
	if len(parts) != 1 {
		l.report.Error(report.Field{At: tree.Position{File: name}}, fmt.Sprintf("has %d documents", len(parts)),
			"a Compose file must be one document")
		return nil
	}
	root, err := tree.New(name, &parts[0], func(at tree.Position, text string) (string, error) {
		l.at = at
		return l.vars.expand(text, 0)
	})
	if err != nil {
		l.fail(err)
		return nil
	}
	if !root.Is(tree.Map) {
		l.report.Error(report.Field{At: root.Position}, "is "+root.Describe(), "must be a mapping with services")
		return nil
	}
	l.checkTop(root)
	include := root.Get("include")
	root.Delete("include")
	for _, item := range listOf(include) {
		root = l.include(root, item)
	}
	return root
}

func (l *loader) fail(err error) {
	var fault *tree.Error
	if errors.As(err, &fault) {
		l.report.Error(report.Field{At: fault.Position, Path: fault.Path}, fault.Problem, fault.Remedy)
	}
}

// checkTop reports the fields of a file that are no fields of Compose, and the shape of the others.
func (l *loader) checkTop(root *tree.Node) {
	for _, field := range root.Fields {
		f := report.Field{At: field.Position, Path: field.Key}
		switch {
		case strings.HasPrefix(field.Key, "x-"), slices.Contains([]string{"version", "name", "include"}, field.Key):
		case field.Key == "models":
			l.report.Error(f, "models are not converted", "run the model in a container of its own")
		case !slices.Contains(topLevel, field.Key):
			remedy := "must be services, volumes, networks, configs or secrets"
			if meant := suggest.Nearest(field.Key, topLevel); meant != "" {
				remedy = fmt.Sprintf("did you mean %q?", meant)
			}
			l.report.Error(f, "is not a field of a Compose file", remedy)
		case !field.Value.IsNull() && !field.Value.Is(tree.Map):
			l.report.Error(f, "is "+field.Value.Describe(), "must be a mapping")
		}
	}
}

// include returns the tree with that of an included file.
func (l *loader) include(root, item *tree.Node) *tree.Node {
	paths := listOf(item)
	if item.Is(tree.Map) {
		paths = listOf(item.Get("path"))
		for _, key := range []string{"project_directory", "env_file"} {
			if n := item.Get(key); n != nil {
				l.report.Lost(report.Field{At: n.Position, Path: "include." + key},
					"is not honoured: paths are relative to the included file, and variables are those of this project", "")
			}
		}
	}
	for _, path := range paths {
		inner := l.file(path, report.Field{At: path.Position, Path: "include"})
		if inner == nil {
			continue
		}
		for _, top := range topLevel {
			for _, f := range fieldsOf(inner.Get(top)) {
				if root.Get(top).Get(f.Key) != nil && top == "services" {
					l.report.Error(report.Field{At: f.Position, Path: top + "." + f.Key},
						"is declared in the file that includes this one too", "remove one of them")
				}
			}
		}
		root = merge(inner, root, "")
	}
	return root
}

// file loads a file that another one names.
func (l *loader) file(name *tree.Node, f report.Field) *tree.Node {
	path := l.host.Path(l.baseDir(name.File), name.String())
	if root, ok := l.loaded[path]; ok && root != nil {
		return root
	}
	switch {
	case slices.Contains(l.pending, path):
		l.report.Error(f, name.String()+" includes itself", "remove one of the references")
		return nil
	case len(l.loaded) >= maxIncluded:
		l.report.Error(f, fmt.Sprintf("more than %d files are included", maxIncluded), "")
		return nil
	}
	l.pending = append(l.pending, path)
	defer func() { l.pending = l.pending[:len(l.pending)-1] }()
	data, err := l.host.ReadFile(path)
	if err != nil {
		l.report.Error(f, fmt.Sprintf("%s %v", name.String(), err), "")
		return nil
	}
	parts, faults := manifest.Parts(path, data)
	for _, fault := range faults {
		l.report.Error(report.Field{At: tree.Position{File: path, Line: fault.Line}, Path: fault.Path}, fault.Problem,
			fault.Remedy)
	}
	if len(faults) > 0 {
		return nil
	}
	root := l.load(path, parts)
	l.loaded[path] = root
	return root
}

// extend returns a service with what it extends.
func (l *loader) extend(root, service *tree.Node, name string, chain []string) *tree.Node {
	extends := service.Get("extends")
	if extends.IsNull() {
		return service
	}
	f := report.Field{At: extends.Position, Path: "services." + name + ".extends"}
	key := service.File + " " + name
	if slices.Contains(chain, key) || len(chain) > maxExtends {
		l.report.Error(f, "the service extends itself", "remove one of the references")
		return service
	}
	from, base := root, extends
	if extends.Is(tree.Map) {
		base = extends.Get("service")
		if file := extends.Get("file"); !file.IsNull() {
			if from = l.file(file, f); from == nil {
				return service
			}
		}
	}
	parent := from.Get("services").Get(base.String())
	if !parent.Is(tree.Map) {
		remedy := ""
		if meant := suggest.Nearest(base.String(), namesOf(from.Get("services"))); meant != "" {
			remedy = fmt.Sprintf("did you mean %q?", meant)
		}
		l.report.Error(f, fmt.Sprintf("there is no service %q", base.String()), remedy)
		return service
	}
	parent = l.extend(from, parent, base.String(), append(chain, key))
	merged := merge(parent, service, "")
	merged.Delete("extends")
	return merged
}

// listOf returns the items of a list, or a single value as a list.
func listOf(n *tree.Node) []*tree.Node {
	switch {
	case n.IsNull():
		return nil
	case n.Kind == tree.List:
		return n.Items
	}
	return []*tree.Node{n}
}

// fieldsOf returns the fields of a mapping; none of anything else.
func fieldsOf(n *tree.Node) []tree.Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

// namesOf returns the names of the fields of a mapping.
func namesOf(n *tree.Node) []string {
	var names []string
	for _, f := range fieldsOf(n) {
		names = append(names, f.Key)
	}
	return names
}
