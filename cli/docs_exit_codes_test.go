package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/manifest"
)

// exitTable is the table of exit codes in cli.md; each of its clauses is a line of allExits.
const exitTable = "cli.md, Exit codes"

// exits is what a page or a help text says about an exit code, and what ends with it.
type exits struct {
	// page is the name of a page, or of a command whose help has the text.
	page, text string
	code       int
	by         []func(*exitTest) error
	// test holds it elsewhere, as DIRECTORY TEST.
	test string
}

// exitTest runs commands against daemons of its own.
type exitTest struct{ *testing.T }

// run runs a command of a daemon.
func (e *exitTest) run(socket string, args ...string) error {
	e.Helper()
	_, _, err := execute(e.T, "", append(args, "--api-socket", socket)...)
	return err
}

// daemon starts a daemon with pods.
func (e *exitTest) daemon(pods ...v1.Pod) *fakeDaemon { return newFakeDaemon(e, pods...).start() }

// onNode runs status on a node with conditions.
func onNode(conditions ...v1.NodeCondition) func(*exitTest) error {
	return func(e *exitTest) error {
		d := newFakeDaemon(e)
		d.conditions = conditions
		return e.run(d.start().socket, "status")
	}
}

var nodeReady = v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue}

// withCondition runs status on a node that is ready and has a condition.
func withCondition(name v1.NodeConditionType) func(*exitTest) error {
	return onNode(nodeReady, v1.NodeCondition{Type: name, Status: v1.ConditionTrue, Message: "why"})
}

// withPods runs a command on a node with pods.
func withPods(pods []v1.Pod, args ...string) func(*exitTest) error {
	return func(e *exitTest) error { return e.run(e.daemon(pods...).socket, args...) }
}

// rolledOut runs rollout status.
func rolledOut(state api.RolloutState, args ...string) func(*exitTest) error {
	return func(e *exitTest) error {
		d, _ := rolloutDaemon(e.T, rollout(state))
		return e.run(d.socket, append([]string{"rollout", "status", "web"}, args...)...)
	}
}

// local runs a command that needs no daemon with an input.
func local(input string, args ...string) func(*exitTest) error {
	return func(e *exitTest) error {
		_, _, err := execute(e.T, input, args...)
		return err
	}
}

// different runs diff of a manifest and a daemon that has none.
func different(input string) func(*exitTest) error {
	return func(e *exitTest) error {
		_, _, err := execute(e.T, input, "diff", "-", "--api-socket", e.daemon().socket)
		return err
	}
}

// same runs diff of the manifest that the daemon has.
func same(e *exitTest) error {
	content, faults := manifest.NewLoader("n1", manifest.ModeStrict).Load(
		manifest.LoadRequest{Source: manifest.SourceFile, Data: []byte(good)})
	if faults.Fatal() {
		e.Fatal(faults)
	}
	_, _, err := execute(e.T, good, "diff", "-", "--api-socket", e.daemon(*content.Documents[0].Pod).socket)
	return err
}

// ctrlC ends a command with Ctrl-C when it watches.
func ctrlC(args ...string) func(*exitTest) error {
	return func(e *exitTest) error {
		d := newFakeDaemon(e, samples()[1])
		d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			d.watched <- struct{}{}
			<-r.Context().Done()
		}
		d.start()
		root := &cobra.Command{Use: "podstead", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Commands(Version{})...)
		Finish(root)
		root.SetOut(&strings.Builder{})
		root.SetErr(&strings.Builder{})
		root.SetArgs(append(args, "--api-socket", d.socket))
		ctx, cancel := context.WithCancel(e.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- root.ExecuteContext(ctx) }()
		select {
		case <-d.watched:
			cancel()
			return <-ended
		case err := <-ended:
			return errors.Join(errors.New("it did not wait for Ctrl-C"), err)
		}
	}
}

func notReady() v1.NodeCondition {
	return v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, Message: "no runtime"}
}

// invalidManifest runs status with a fault.
func invalidManifest(e *exitTest) error {
	d := newFakeDaemon(e)
	d.manifests = `[{"source":"file","units":[{"name":"/etc/pods/bad.yaml","faults":["/etc/pods/bad.yaml:1: is wrong"]}]}]`
	return e.run(d.start().socket, "status")
}

func failedArchive(e *exitTest) error {
	d := newFakeDaemon(e)
	d.routes["GET /podstead/v1/images/archives"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"name":"web.tar","state":"Failed","message":"is damaged"}]`))
	}
	return e.run(d.start().socket, "status")
}

func failedUpdate(e *exitTest) error {
	failed := updates
	failed.Containers = []api.ContainerImageUpdate{{Container: "web", State: api.UpdateFailed}}
	d, _ := updateDaemon(e.T, failed)
	return e.run(d.socket, "auto-update")
}

// withWait runs a command that changes manifests, which this daemon does not read.
func withWait(command string) func(*exitTest) error {
	return func(e *exitTest) error {
		dir, file := e.TempDir(), write(e.T, filepath.Join(e.TempDir(), "web.yaml"), appliedPod)
		d := manifestDaemon(e.T, dir, "")
		if command == "delete" {
			d.pods = samples()[:1]
			write(e.T, filepath.Join(dir, "web.yaml"), appliedPod)
		}
		return e.run(d.socket, command, "-f", file, "--wait", "--timeout=100ms")
	}
}

// restartOf runs restart of a pod that stays as it is.
func restartOf(e *exitTest) error {
	d := newFakeDaemon(e, samples()[0])
	d.routes["POST /podstead/v1/namespaces/{namespace}/pods/{pod}/restart"] = func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = w.Write([]byte(`{"name":"web-n1"}`))
	}
	return e.run(d.start().socket, "restart", "web", "--wait", "--timeout=100ms")
}

// existing runs convert into a directory that has a file of its name with other content.
func existing(e *exitTest) error {
	dir := e.TempDir()
	for _, input := range []string{convertedCompose, strings.Replace(convertedCompose, ":1", ":2", 1)} {
		if _, _, err := execute(e.T, input, "convert", "-o", dir); err != nil {
			return err
		}
	}
	return nil
}

func noDaemon(args ...string) func(*exitTest) error {
	return func(e *exitTest) error { return e.run(filepath.Join(e.TempDir(), "s"), args...) }
}

const (
	badPod     = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, imagee: b:1}]}\n"
	badCompose = "services: {web: {build: .}}\n"
)

var (
	// failingPods and startingPods are those of a node that is ready.
	failingPods, startingPods = samples()[1:2], []v1.Pod{pod("new", func(p *v1.Pod) {
		p.Status.Phase = v1.PodPending
		p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "ContainerCreating", "")}
	})}
	statusUnderPressure = []func(*exitTest) error{withCondition(v1.NodeMemoryPressure), withCondition(v1.NodeDiskPressure),
		withCondition(v1.NodePIDPressure)}
	statusUnwell = slices.Concat(statusUnderPressure, []func(*exitTest) error{onNode(notReady()),
		withCondition("podstead.io/RootDirNotWritable"), invalidManifest, failedArchive, withPods(failingPods, "status")})
	convertFails = []func(*exitTest) error{local(badCompose, "convert")}
	rolloutFails = []func(*exitTest) error{rolledOut(api.RolloutRolledBack), func(e *exitTest) error {
		r := rollout(api.RolloutStable)
		r.UID = "u1"
		d, _ := rolloutDaemon(e.T, r)
		d.change(func(pods []v1.Pod) []v1.Pod {
			pods[0].UID, pods[0].Status.Phase = "u1", v1.PodFailed
			return pods
		})
		return e.run(d.socket, "rollout", "status", "web")
	}}
)

// allExits are all sentences of the pages and the help texts about an exit code with its number.
var allExits = []exits{
	// The table of cli.md, by clauses.
	{page: exitTable, text: "success", by: []func(*exitTest) error{withPods(samples(), "get", "pods")}},
	{page: exitTable, text: "`diff`: no differences", by: []func(*exitTest) error{same}},
	{page: exitTable, text: "`status`: everything is healthy or starting",
		by: []func(*exitTest) error{withPods(startingPods, "status"), withPods(nil, "status")}},
	{page: exitTable, text: "failure: not found, invalid or different", code: 1,
		by: []func(*exitTest) error{withPods(nil, "get", "pods", "nosuch"), local(badPod, "validate", "-"), different(good)}},
	{page: exitTable, text: "`status`: the node is not ready or under pressure, its root directory cannot be written " +
		"to, a " +
		"manifest or an image archive is invalid, or a pod is failing", code: 1, by: statusUnwell},
	{page: exitTable, text: "`rollout status`: a pod was rolled back, has failed or cannot be resized, or its manifest " +
		"is invalid", code: 1,
		by: rolloutFails},
	{page: exitTable, text: "`auto-update`: a check failed", code: 1, by: []func(*exitTest) error{failedUpdate}},
	{page: exitTable, text: "`convert`: the input cannot be converted, or with `--strict` something would be lost",
		code: 1,
		by:   append(convertFails, local(convertedCompose, "convert", "--strict"))},
	{page: exitTable, text: "invalid command line", code: 2,
		by: []func(*exitTest) error{local("", "get", "--nosuch"), local("", "nosuch"), local("", "get", "nosuch")}},
	{page: exitTable, text: "`diff`: any failure other than the following", code: 2,
		by: []func(*exitTest) error{different(badPod), withPods(nil, "diff", "/nosuch")}},
	{page: exitTable, text: "the daemon cannot be reached on its socket, or access is denied", code: 3,
		by: []func(*exitTest) error{noDaemon("get", "pods"), noDaemon("status"), noDaemon("diff", "-")}},
	{page: exitTable, text: "timeout of `wait`, `rollout status` or a command with `--wait`, as with timeout(1)",
		code: 124, by: []func(*exitTest) error{withPods(failingPods, "wait", "crash", "--timeout=0"),
			rolledOut(api.RolloutPreparing, "--timeout=100ms"), withWait("apply"), withWait("create"), withWait("delete"),
			restartOf}},
	{page: exitTable, text: "interrupted by Ctrl-C", code: 130, by: []func(*exitTest) error{ctrlC("wait", "crash")}},
	{page: exitTable, text: "commands that run until Ctrl-C (`-w`, `logs -f`) exit with 0",
		by: []func(*exitTest) error{ctrlC("get", "pods", "-w"), ctrlC("events", "-w"),
			ctrlC("logs", "-f", "crash", "-c", "b")}},
	{page: exitTable, text: "`exec` exits with the code of the command in the container.", test: "test/e2e/api TestExec"},

	// The rest of cli.md.
	{page: "cli.md", text: "exit code 1 if it was rolled back or has failed, or cannot be [resized](pods.md#resources) " +
		"(`Infeasible`),",
		code: 1, by: rolloutFails},
	{page: "cli.md", text: "124 if it is still in progress, or not ready, after the timeout", code: 124,
		by: []func(*exitTest) error{rolledOut(api.RolloutPreparing, "--timeout=100ms")}},
	{page: "cli.md", text: "exit code 1 if a check failed", code: 1, by: []func(*exitTest) error{failedUpdate}},
	{page: "cli.md", text: "ends then with exit code 1 and names `podstead check`", code: 1,
		test: "cli/wait TestWaitRepeatsTheStateAndEndsWhenNothingCanStart"},
	{page: "cli.md", text: "With an error there is no output, and the exit code is 1;", code: 1, by: convertFails},
	{page: "cli.md", text: "with `--strict` also if anything is lost.", code: 1,
		by: []func(*exitTest) error{local(convertedCompose, "convert", "--strict")}},
	{page: "cli.md", text: "Otherwise the exit code is 0,",
		by: []func(*exitTest) error{local(convertedCompose, "convert")}},
	{page: "cli.md", text: "other content is not replaced: nothing is written, and the exit code is 1.", code: 1,
		by: []func(*exitTest) error{existing}},

	{page: "check.md", text: "The exit code is 1 if something prevents pods from running.", code: 1,
		test: "cmd/podstead TestCheckConfigFile"},
	{page: "configuration.md", text: "reports errors in the files before that, with the exit code 1.", code: 1,
		test: "cmd/podstead TestCheckConfigFile"},
	{page: "csi.md", text: "`podstead status` shows it at `Storage:` and exits with 1,", code: 1,
		by: []func(*exitTest) error{withCondition("podstead.io/CSIVolumesUnreadable")}},
	{page: "debug.md", text: "The exit code is 1 if something is wrong.", code: 1, by: statusUnwell},
	{page: "debug.md", text: "`failed to connect to the daemon` (exit code 3)", code: 3,
		by: []func(*exitTest) error{noDaemon("status"), noDaemon("get", "pods")}},
	{page: "debug.md", text: "`validate` reports all faults of a directory at once, and exits with 1.", code: 1,
		by: []func(*exitTest) error{local(badPod, "validate", "-")}},
	{page: "eviction.md", text: "`podstead status` exits with 1, and new pods wait:", code: 1, by: statusUnderPressure},
	{page: "files.md", text: "the first file that could not be written, and exits with 1.", code: 1,
		by: []func(*exitTest) error{withCondition("podstead.io/RootDirNotWritable")}},
	{page: "pods.md", text: "and exit with 1 for a resize that is `Infeasible`.", code: 1,
		test: "cli TestRolloutStatusOfAResize"},
	{page: "rollouts.md", text: "`podstead rollout status` exits with 1.", code: 1,
		by: rolloutFails[:1]},
	{page: "update.md", text: "`diff` exits with 1 if there are differences.", code: 1,
		by: []func(*exitTest) error{different(good)}},
	{page: "update.md", text: "it exits with 0 if the new revision is ready,", by: []func(*exitTest) error{
		rolledOut(api.RolloutStable)}},
	{page: "update.md", text: "and with 1 if it was rolled back.", code: 1, by: rolloutFails[:1]},

	// Help texts.
	{page: "podstead convert", text: "there is no output then, and the exit code is 1.", code: 1, by: convertFails},
	{page: "podstead convert", text: "With --strict there is no output either if anything is lost, and the exit code " +
		"is 1.",
		code: 1, by: []func(*exitTest) error{local(convertedCompose, "convert", "--strict")}},
	{page: "podstead diff", text: "The exit code is 0 if there are no differences,", by: []func(*exitTest) error{same}},
	{page: "podstead diff", text: "1 if there are differences,", code: 1, by: []func(*exitTest) error{different(good)}},
	{page: "podstead diff", text: "2 if a manifest is invalid or something else fails,", code: 2,
		by: []func(*exitTest) error{different(badPod), withPods(nil, "diff", "/nosuch")}},
	{page: "podstead diff", text: "3 if the daemon cannot be reached.", code: 3,
		by: []func(*exitTest) error{noDaemon("diff", "-")}},
	{page: "podstead rollout status",
		text: "The exit code is 0 if the revision of the manifest, or another one on request, " +
			"is in effect and ready or has succeeded,",
		by: []func(*exitTest) error{rolledOut(api.RolloutStable), rolledOut(api.RolloutUndone)}},
	{page: "podstead rollout status",
		text: "1 if it was rolled back, has failed or cannot be resized, or if its manifest is invalid,",
		code: 1,
		by:   rolloutFails},
	{page: "podstead rollout status", text: "and 124 if the rollout is still in progress, or the pod not ready or not " +
		"resized, after --timeout.", code: 124,
		by: []func(*exitTest) error{rolledOut(api.RolloutPreparing, "--timeout=100ms")}},
	{page: "podstead status", text: "The exit code is 0 if everything is healthy or starting,",
		by: []func(*exitTest) error{withPods(startingPods, "status")}},
	{page: "podstead status", text: "1 if the node is not ready or under pressure, the daemon cannot write to its root " +
		"directory, a manifest or an image archive is invalid or a pod is failing,", code: 1, by: statusUnwell},
	{page: "podstead status", text: "3 if the daemon cannot be reached.", code: 3, by: []func(*exitTest) error{
		noDaemon("status")}},
	{page: "podstead validate", text: "The exit code is 1 if there are errors,", code: 1,
		by: []func(*exitTest) error{local(badPod, "validate", "-")}},
	{page: "podstead validate", text: "otherwise 0.", by: []func(*exitTest) error{local(good, "validate", "-")}},
	{page: "podstead wait", text: "The exit code is 124 after a timeout,", code: 124,
		by: []func(*exitTest) error{withPods(failingPods, "wait", "crash", "--timeout=0")}},
	{page: "podstead wait", text: "and 1 after 30 seconds in which the container runtime could not start any pod.",
		code: 1,
		test: "cli/wait TestWaitRepeatsTheStateAndEndsWhenNothingCanStart"},
}

// Each exit code that a page or a help text names is the one with which the program ends. A new sentence needs a line
// in allExits.
func TestDocumentedExitCodes(t *testing.T) {
	t.Parallel()
	pages := exitPages(t)
	for _, x := range allExits {
		found := strings.Index(pages[x.page], x.text)
		if found < 0 {
			t.Errorf("%s does not contain %q", x.page, x.text)
			continue
		}
		pages[x.page] = strings.Replace(pages[x.page], x.text, "▪", 1)
		if directory, name, ok := strings.Cut(x.test, " "); ok != (len(x.by) == 0) || ok && !hasTest(t, directory, name) {
			t.Errorf("%s, %q: nothing tests it", x.page, x.text)
		}
		for i, by := range x.by {
			if err := by(&exitTest{t}); Code(err) != x.code {
				t.Errorf("%s, %q: the %d. command ends with %d: %v", x.page, x.text, i+1, Code(err), err)
			}
		}
	}
	named := regexp.MustCompile(`(?i).{0,80}\b(?:exit codes?(?: is)?|exits? with) (?:[0-3]|124|130)\b.{0,40}`)
	for clause := range strings.FieldsFuncSeq(pages[exitTable], func(r rune) bool { return r == '|' || r == ';' }) {
		if strings.ContainsFunc(clause, unicode.IsLetter) {
			t.Errorf("%s: add a line to allExits for %q", exitTable, clause)
		}
	}
	for page, text := range pages {
		for _, sentence := range named.FindAllString(text, -1) {
			t.Errorf("%s: add a line to allExits for %q", page, sentence)
		}
	}
}

// hasTest reports whether a directory has a test.
func hasTest(t *testing.T, directory, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(")
	})
}

// exitPages returns the pages and the help texts with single blanks.
func exitPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	pages := map[string]string{}
	for _, file := range append(files, "../README.md", "../SECURITY.md") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = strings.Join(strings.Fields(string(data)), " ")
	}
	before, section, _ := strings.Cut(pages["cli.md"], "## Exit codes | code | meaning | |---|---|")
	section, after, _ := strings.Cut(section, "## ")
	pages["cli.md"], pages[exitTable] = before+after, section
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		pages["podstead "+c.CommandPath()] = strings.Join(strings.Fields(c.Long), " ")
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	for _, c := range Commands(Version{}) {
		add(c)
	}
	return pages
}
