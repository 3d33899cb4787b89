package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// clusterGrowth lists what can become more in package cluster, and what bounds it: the fields of its structs that are
// lists and maps, and the functions that start goroutines or watches. The cluster's tenants create pods, ConfigMaps,
// Secrets, claims and services as they like, so that each of these needs a bound that someone has thought of. An attack
// for what tenants multiply is in TestHostileTenants.
var clusterGrowth = map[string]string{
	// What pods refer to: 256 references of a pod, 2048 of all pods, half of what others leave for a namespace
	// (objects_count.go).
	"Objects.entries": "one for each reference, the services, and three secrets for each claim of a " +
		"CSI volume; 40 MiB of content",
	"Objects.tokens": "one for each reference, and for each pod those that an installed CSI driver " +
		"asks for",
	"storageObjects.claims":            "one for each reference; with their volumes, they count for the 40 MiB of content",
	"storageObjects.attachments":       "one for each claim of a CSI volume",
	"Objects.startWatch()":             "one for each entry",
	"Objects.startToken()":             "one for each token",
	"Objects.startClaim()":             "one for each claim; eight request at once",
	"Objects.startAttachment()":        "one for each attachment; eight request at once",
	"Objects.startDrivers()":           "one",
	"csiDrivers.known":                 "the CSIDriver objects, which administrators create",
	"podReferences.refs":               "those of the pod's specification, which is bounded by podBudget",
	"podReferences.tokens":             "those of the pod's specification",
	"podReferences.claims":             "those of the pod's specification",
	"podReferences.drivers":            "those of the pod's specification",
	"watchSet.refs":                    "as Objects.entries",
	"watchSet.tokens":                  "as Objects.tokens",
	"watchSet.claims":                  "as storageObjects.claims",
	"watchSet.drivers":                 "one for each reference; all drivers have one watch",
	"watchSet.admitted":                "one for each pod",
	"watchSet.held":                    "one for each pod",
	"Objects.admitted":                 "one for each pod",
	"Objects.held":                     "one for each pod",
	"podState.awaited":                 "what one pod refers to, while its state is computed",
	"uniqueList.items":                 "what one pod or claim names; temporary",
	"uniqueList.known":                 "what one pod or claim names; temporary",
	"attachment.metadata":              "what the driver's attacher writes into an object of at most a megabyte",
	"volumeAttachment.Status.Metadata": "one object of the API, while it is decoded; eight at once",
	"resourceClaim.Status.ReservedFor": "256 in the API; one object, while it is decoded",
	"claimPatchStatus.Statuses":        "one resource",
	"claimPatchStatus.Conditions":      "four",

	// Services: 16 MiB, half of what others leave for a namespace (service_budget.go).
	"Objects.services":       "as serviceBudget.services",
	"serviceBudget.services": "16 MiB of what they specify",
	"serviceBudget.reported": "one for each namespace, which administrators create",

	// Pods: 16 MiB of what they specify, half of what others leave for a namespace, and 5000 rejected ones
	// (pod_budget.go).
	"podBudget.pods":          "one for each pod, accepted or rejected",
	"boundPods.delivered":     "one for each accepted pod",
	"localPods.static":        "one for each pod of a manifest",
	"localPods.bound":         "one for each accepted pod",
	"podWriter.busy":          "eight",
	"podWriter.inSync":        "one for each pod",
	"podWriter.writeErrors":   "one for each pod",
	"podWriter.sentPatches":   "one for each pod; a status has at most 12 KiB of messages",
	"podWriter.nameConflicts": "one for each pod of a manifest",
	"podWriter.refused":       "one for each pod",
	"podWriter.reconcile()":   "eight",
	"refusedStatus.states":    "the containers of a pod",
	"refusedStatus.fields":    "the fields of a status",
	"refusedStatus.untried":   "the fields of a status",
	"result.patch":            "one status; eight at once",
	"sentPatch.body":          "one status",
	"step.body":               "one status; eight at once",

	// Events: the recorder keeps 1000, 100 of a pod.
	"sentEvents.counts": "one for each event of the recorder",
	"sentRecord.Events": "one for each event of the recorder",

	// Watches and lists.
	"Adapter.setClient()":    "two watches: of the Node object, and of the node's pods",
	"Adapter.Run()":          "one for each task of the adapter",
	"watchFailure.observe()": "one for each watch",
	"store.objects": "what the budget of the resource keeps: pods, services, ConfigMaps and Secrets each have " +
		"one; those without space, without their content, until the next list, after ten minutes at most",
	"store.removed":        "what was removed since the last list, ten minutes at most",
	"objectList.Items":     "what the budget of the resource keeps of a list",
	"namespaceShares.used": "the namespaces of what is kept",
	"trackedConns.open":    "the connections to one API server: each transport has one, with HTTP/2",

	// What only this node and administrators decide.
	"Adapter.keptDiff":            "the Node object",
	"Registration.Taints":         "the configuration",
	"certificates.run()":          "one for each certificate: two",
	"certificateRequests.usages":  "those of a certificate: three",
	"certificateRequests.await()": "one for each request of a certificate",
	"identity.earlier":            "the directories of certificates of this node",
	"nodeStorage.wasRegistered":   "the drivers that have registered here: pods that may mount the directory of plugins",
	"nodeStorage.refused":         "the CSINode object",
	"csiNodeMeta.Owners":          "one",
	"csiNodeDrivers.Drivers":      "the drivers that have registered here",
}

// growing returns what can become more in a file, by TYPE.FIELD and FUNCTION().
func growing(file *ast.File) (found []string) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				switch t := s.Type.(type) {
				case *ast.MapType, *ast.ArrayType:
					found = append(found, s.Name.Name)
				case *ast.StructType:
					found = append(found, growingFields(s.Name.Name, t)...)
				}
			}
		case *ast.FuncDecl:
			if d.Body != nil && starts(d.Body) {
				found = append(found, receiver(d)+d.Name.Name+"()")
			}
		}
	}
	return found
}

// receiver returns the type of a method and a point, empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	return t.(*ast.Ident).Name + "."
}

// growingFields returns the fields of a struct that are lists or maps, also of structs in it.
func growingFields(name string, t *ast.StructType) (found []string) {
	for _, field := range t.Fields.List {
		for _, n := range field.Names {
			switch inner := field.Type.(type) {
			case *ast.MapType, *ast.ArrayType:
				found = append(found, name+"."+n.Name)
			case *ast.StructType:
				found = append(found, growingFields(name+"."+n.Name, inner)...)
			}
		}
	}
	return found
}

// starts reports whether a function starts a goroutine or creates a watch.
func starts(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			called := n.Fun
			if index, ok := called.(*ast.IndexExpr); ok {
				called = index.X
			}
			switch f := called.(type) {
			case *ast.SelectorExpr:
				found = found || f.Sel.Name == "Go"
			case *ast.Ident:
				found = found || f.Name == "newReflector"
			}
		}
		return true
	})
	return found
}

// What the cluster's tenants can multiply has a bound.
func TestGrowthInTheClusterIsBounded(t *testing.T) {
	known := map[string]bool{}
	sources(t, func(path string, file *ast.File) {
		if !strings.HasPrefix(path, "cluster/") || strings.HasPrefix(path, "cluster/certificate/") {
			return
		}
		for _, name := range growing(file) {
			if clusterGrowth[name] == "" {
				t.Errorf("%s: %s can become more; say in the table what bounds it, and attack it in TestHostileTenants if a "+
					"tenant decides how many there are", path, name)
			}
			known[name] = true
		}
	})
	for name := range clusterGrowth {
		if !known[name] {
			t.Errorf("%s is not in package cluster; remove it from the table", name)
		}
	}
}

func TestGrowing(t *testing.T) {
	for text, want := range map[string][]string{
		`type a struct { b map[string]int; c, d []byte; e int; f func() []int }`: {"a.b", "a.c", "a.d"},
		`type a struct { b struct { c []int } }`:                                 {"a.b.c"},
		`type a map[string]int`:                                                  {"a"},
		`func (x *y) a() { go b() }`:                                             {"y.a()"},
		`func a(wg *sync.WaitGroup) { wg.Go(b) }`:                                {"a()"},
		`func a() { b := newReflector[*v1.Pod](c) }`:                             {"a()"},
		`func a() { b() }`:                                                       nil,
	} {
		if got := growing(parseText(t, "package x\n"+text)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func parseText(t *testing.T, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
