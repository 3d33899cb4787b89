package kubeapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
)

// discovered returns the paths of all resources that discovery lists, without subresources and
// reviews.
func (b *kubeAPIHarness) discovered() map[string]metav1.APIResource {
	b.Helper()
	paths := []string{"/api/v1"}
	var groups metav1.APIGroupList
	b.get("/apis", &groups)
	for _, g := range groups.Groups {
		paths = append(paths, "/apis/"+g.PreferredVersion.GroupVersion)
	}
	found := map[string]metav1.APIResource{}
	for _, path := range paths {
		var list metav1.APIResourceList
		b.get(path, &list)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") && strings.Contains(r.Verbs.String(), "watch") {
				found[path+"/"+r.Name] = r
			}
		}
	}
	return found
}

// Every resource that discovery lists can be listed, as objects and as a table, and watched, and
// its kind is that of the responses.
func TestEveryDiscoveredResourceIsServed(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	all := b.discovered()
	if len(all) < 30 {
		t.Fatalf("only %d resources", len(all))
	}
	for path, r := range all {
		var list metav1.List
		b.get(path, &list)
		version := strings.TrimPrefix(strings.TrimPrefix(path[:strings.LastIndex(path, "/")], "/apis/"), "/api/")
		if list.Kind != r.Kind+"List" || list.APIVersion != version || list.ResourceVersion == "" || list.Items == nil {
			t.Errorf("%s: %+v", path, list.TypeMeta)
		}
		if code, body := b.request("GET", path, asTable); code != 200 ||
			!strings.Contains(body, `"columnDefinitions":[{"name":"`) {
			t.Errorf("%s as a table: %d %s", path, code, body)
		}
		b.missing(path, r)
		b.quiet(path, r.Kind, version, list.ResourceVersion)
		if code, body := b.request("GET", "/openapi/v3"+path[:strings.LastIndex(path, "/")], ""); code != 200 ||
			!strings.Contains(body, `"`+r.Kind+`"`) {
			t.Errorf("the OpenAPI document of %s: %d", path, code)
		}
	}
}

// missing checks the error of an object that does not exist.
func (b *kubeAPIHarness) missing(path string, r metav1.APIResource) {
	b.Helper()
	one := path + "/none"
	if r.Namespaced {
		at := strings.LastIndex(path, "/")
		one = path[:at] + "/namespaces/shop" + path[at:] + "/none"
	}
	code, body := b.request("GET", one, "")
	var s metav1.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != 404 || s.Details == nil ||
		s.Details.Name != "none" || s.Details.Kind != r.Name {
		b.Errorf("%s: %d %s", one, code, body)
	}
}

// quiet checks that a watch from the version of a list sends a bookmark and no change.
func (b *kubeAPIHarness) quiet(path, kind, apiVersion, version string) {
	b.Helper()
	w := b.watch(path+
		"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="+
		version, "")
	for w.lines.Scan() {
		line := w.lines.Text()
		if strings.Contains(line, `"type":"BOOKMARK","object":{"kind":"`+kind+`","apiVersion":"`+apiVersion+`"`) {
			return
		}
		if !strings.Contains(line, `"type":"ADDED"`) {
			b.Errorf("%s: %s", path, line)
		}
	}
	b.Errorf("a watch of %s ended: %v", path, w.lines.Err())
}

func TestClaimsAndClassesAsTables(t *testing.T) {
	gigabyte := v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity.MustParse("1Gi")}}
	claims := func() []*v1.PersistentVolumeClaim {
		return []*v1.PersistentVolumeClaim{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
				Spec: v1.PersistentVolumeClaimSpec{Resources: gigabyte,
					AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bound"},
				Spec: v1.PersistentVolumeClaimSpec{Resources: gigabyte}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "unused"},
				Spec: v1.PersistentVolumeClaimSpec{Resources: gigabyte}},
		}
	}
	declared := func() []*v1.PersistentVolume {
		volume := func(name string) *v1.PersistentVolume {
			return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
				Capacity: gigabyte.Requests, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
				StorageClassName:              "ssd",
				PersistentVolumeSource:        v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/" + name}},
			}}
		}
		return []*v1.PersistentVolume{volume("free"), volume("taken")}
	}
	taken := declared()[1]
	taken.Spec.ClaimRef = &v1.ObjectReference{Namespace: "shop", Name: "bound"}
	volumes := func() []ClaimVolume {
		return []ClaimVolume{
			{Namespace: "shop", Name: "bound", Volume: taken},
			{Namespace: "shop", Name: "data", Path: "/v/shop/data", Created: time.Now().Add(-time.Hour)},
			{Namespace: "shop", Name: "old", Path: "/v/shop/old"},
		}
	}
	b := newTestAPI(t)
	b.api = New(Config{Versions: OpenVersions("", statefile.Disk{}), Sources: Sources{
		Claims:  ClaimSource(claims, volumes, nil),
		Volumes: VolumeSource(declared, claims, volumes, nil),
		Services: ObjectSource(func() []*v1.Service {
			return []*v1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: v1.ServiceSpec{
				ClusterIP: v1.ClusterIPNone, Ports: []v1.ServicePort{{Port: 5432}}, Selector: map[string]string{"app": "db"}}}}
		}, nil),
		PriorityClasses: ObjectSource(func() []*schedulingv1.PriorityClass {
			return []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}}
		}, nil),
		StorageClasses: ObjectSource(func() []*storagev1.StorageClass {
			return []*storagev1.StorageClass{
				{ObjectMeta: metav1.ObjectMeta{Name: "ssd",
					Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
					Provisioner: "podstead.io/directory"}}
		}, nil),
		RuntimeClasses: ObjectSource(func() []*nodev1.RuntimeClass {
			return []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}}
		}, nil),
	}})
	for path, want := range map[string]string{
		"/api/v1/persistentvolumeclaims":             `["bound","Bound","taken","1Gi","","ssd","\u003cunknown\u003e"] ["data","Bound","shop.data","1Gi","RWOP","\u003cnone\u003e","60m"] ["unused","Pending","\u003cnone\u003e","1Gi","","\u003cnone\u003e","\u003cunknown\u003e"]`,
		"/api/v1/persistentvolumes":                  `["free","1Gi","RWO","Retain","Available","","ssd","\u003cunknown\u003e","nas:/free"] ["shop.data","1Gi","RWOP","Retain","Bound","shop/data","\u003cnone\u003e","60m","/v/shop/data"] ["shop.old","0","","Retain","Released","shop/old","\u003cnone\u003e","\u003cunknown\u003e","/v/shop/old"] ["taken","1Gi","RWO","Retain","Bound","shop/bound","ssd","\u003cunknown\u003e","nas:/taken"]`,
		"/api/v1/services":                           `["db","ClusterIP","None","\u003cnone\u003e","5432/TCP","\u003cunknown\u003e","app=db"]`,
		"/apis/scheduling.k8s.io/v1/priorityclasses": `["high",1000,false,"\u003cunknown\u003e","PreemptLowerPriority"]`,
		"/apis/storage.k8s.io/v1/storageclasses":     `["ssd (default)","podstead.io/directory","Retain","WaitForFirstConsumer",false,"\u003cunknown\u003e"]`,
		"/apis/node.k8s.io/v1/runtimeclasses":        `["gvisor","runsc","\u003cunknown\u003e"]`,
	} {
		code, body := b.direct("GET", path, asTable)
		var table metav1.Table
		if err := json.Unmarshal([]byte(body), &table); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		var rows []string
		for _, row := range table.Rows {
			cells, _ := json.Marshal(row.Cells)
			rows = append(rows, string(cells))
			if len(row.Cells) != len(table.ColumnDefinitions) {
				t.Errorf("%s: %d cells for %d columns", path, len(row.Cells), len(table.ColumnDefinitions))
			}
		}
		if got := strings.Join(rows, " "); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	if _, body := b.direct("GET", "/api/v1/namespaces/shop/persistentvolumeclaims/data", ""); !strings.Contains(body,
		`"status":{"phase":"Bound","accessModes":["ReadWriteOncePod"],"capacity":{"storage":"1Gi"}}`) {
		t.Errorf("the claim: %s", body)
	}
}

// direct calls the API without a server.
func (b *kubeAPIHarness) direct(method, path, accept string) (int, string) {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
