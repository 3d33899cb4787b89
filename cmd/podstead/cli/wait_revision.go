package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// settleTime is how long the daemon has to read a file anew: until then a fault
// that it tells may be one of the file before.
const settleTime = 3 * time.Second

// awaitFiles waits for what the manifests of the targets, or the given files,
// say now.
func (w *waiter) awaitFiles(ctx context.Context, o waitOptions) error {
	w.verb = "runs what its manifest says"
	if w.kind.name != "pods" {
		return usageError(fmt.Errorf("--for=revision is for pods, not for %s", w.kind.name))
	}
	node, err := nodeName(ctx, w.client)
	if err != nil {
		return err
	}
	files := slices.Clone(o.files)
	for _, t := range w.targets {
		unit, err := manifestFile(ctx, w.client, t)
		if err != nil {
			return err
		}
		hashes, err := revisionsOf(unit, node)
		if err != nil {
			return err
		}
		for _, p := range hashes {
			if manifest.BaseName(p) == t.name || p.Name == t.name {
				t.namespace, t.until = p.Namespace, untilRevision(p.Annotations[podinfo.AnnotationHash])
			}
		}
		if t.until == nil {
			return fmt.Errorf("%s has no pod %q any more; podstead wait %s --for=delete waits for its end", unit, t.name, t.name)
		}
		files = append(files, unit)
	}
	for _, file := range o.files {
		pods, err := revisionsOf(file, node)
		if err != nil {
			return err
		}
		for _, p := range pods {
			w.targets = append(w.targets, &target{namespace: p.Namespace, name: p.Name, until: untilRevision(p.Annotations[podinfo.AnnotationHash])})
		}
	}
	began := time.Now()
	w.check = func(ctx context.Context) error {
		if time.Since(began) < settleTime {
			return nil
		}
		return refusedFile(ctx, w.client, files)
	}
	return nil
}

// nodeName is the daemon's, which names of pods end with.
func nodeName(ctx context.Context, c *client) (string, error) {
	l, err := query{kind: mustKind("nodes")}.list(ctx, c)
	if err != nil {
		return "", err
	}
	if len(l.objects) != 1 {
		return "", errors.New("podstead tells of no node")
	}
	return l.objects[0].Name, nil
}

// manifestFile is the file that a pod comes from, as the daemon reads it.
func manifestFile(ctx context.Context, c *client, t *target) (string, error) {
	var sources []manifestSource
	if err := c.get(ctx, "/podstead/v1/manifests", &sources); err != nil {
		return "", err
	}
	q := query{kind: podKind(), namespace: t.namespace, names: []string{t.name}}
	l, err := q.list(ctx, c)
	if err != nil {
		return "", err
	}
	if len(l.objects) == 0 {
		return "", fmt.Errorf("no pod %q%s; for a new one, name its file: podstead wait -f FILE --for=revision", t.name, inNamespace(t.namespace))
	}
	p, err := podOf(l.objects[0])
	if err != nil {
		return "", err
	}
	for _, s := range sources {
		for _, u := range s.Units {
			if !slices.Contains(u.Pods, p.Namespace+"/"+manifest.BaseName(p)) {
				continue
			}
			if s.Source != string(manifest.SourceFile) {
				return "", fmt.Errorf("pod %q comes from %s, which is no file; give the revision with --for=revision=HASH", t.name, u.Name)
			}
			return u.Name, nil
		}
	}
	return "", fmt.Errorf("pod %q is in no manifest", t.name)
}

// revisionsOf are the pods of a file as the daemon would make them now.
func revisionsOf(file, node string) ([]*v1.Pod, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readLimited(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	load := func(mode manifest.Mode) (manifest.Content, manifest.Faults) {
		return manifest.NewLoader(node, mode).Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: file, Data: data})
	}
	// Unknown fields do not count for the revision; whether they are refused
	// is up to the daemon, which tells. They explain other faults.
	content, faults := load(manifest.ModeIgnore)
	if faults.Fatal() {
		_, faults = load(manifest.ModeStrict)
		return nil, fmt.Errorf("the daemon keeps the last good revision, since this one is faulty:\n%w", faults)
	}
	var pods []*v1.Pod
	for _, d := range content.Documents {
		pods = append(pods, d.Pod)
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("%s has no pod", file)
	}
	return pods, nil
}

// refusedFile is an error if the daemon refuses one of the files.
func refusedFile(ctx context.Context, c *client, files []string) error {
	var sources []manifestSource
	if err := c.get(ctx, "/podstead/v1/manifests", &sources); err != nil {
		return err
	}
	for _, s := range sources {
		for _, u := range s.Units {
			if len(u.Faults) > 0 && slices.Contains(files, u.Name) {
				return fmt.Errorf("podstead refuses it, and keeps the last good revision:\n%s", strings.Join(u.Faults, "\n"))
			}
		}
	}
	return nil
}
