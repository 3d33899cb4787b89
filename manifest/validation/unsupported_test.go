package validation

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestEveryFieldHasAVerdict fails when the API package has a field
// without a verdict, and when a verdict has no field.
func TestEveryFieldHasAVerdict(t *testing.T) {
	var walk func(path string, on verdict, of reflect.Type)
	walk = func(path string, on verdict, of reflect.Type) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch on := on.(type) {
		case supported, ignored, unsupported, notSupportedYet, onlyValues:
		case listVerdict:
			if of.Kind() != reflect.Slice {
				t.Fatalf("%s: has a verdict on a list's elements and is a %s", path, of)
			}
			walk(path+"[]", on.verdict, of.Elem())
		case mapVerdict:
			if of.Kind() != reflect.Map || on.lookup("some-key") == nil {
				t.Errorf("%s: has a verdict by keys and is a %s, or has none on other keys", path, of)
			}
		case resourceVerdict:
			walk(path, on.structVerdict, of)
		case structVerdict:
			names := map[string]reflect.Type{}
			jsonFields(of, names)
			for name, of := range names {
				if on[name] == nil {
					t.Errorf("%s.%s: has no verdict in podVerdicts", path, name)
					continue
				}
				walk(path+"."+name, on[name], of)
			}
			for name := range on {
				if names[name] == nil {
					t.Errorf("%s.%s: has a verdict in podVerdicts and is not in the API", path, name)
				}
			}
		default:
			t.Fatalf("%s: a verdict of type %T", path, on)
		}
	}
	walk("pod", podVerdicts, reflect.TypeFor[v1.Pod]())
	walk("a cluster's pod", boundVerdicts, reflect.TypeFor[v1.Pod]())
}

// jsonFields collects the fields of a struct, embedded ones included, by name.
func jsonFields(of reflect.Type, into map[string]reflect.Type) {
	for i := range of.NumField() {
		if name := jsonName(of.Field(i)); name != "" {
			into[name] = of.Field(i).Type
		} else {
			jsonFields(of.Field(i).Type, into)
		}
	}
}

// defaultedPod decodes a manifest and adds metadata and a container if the fragment
// has none.
func defaultedPod(t *testing.T, manifest string) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(manifest), pod); err != nil {
		t.Fatalf("cannot read %s: %v", manifest, err)
	}
	if pod.Name == "" {
		pod.Name = "web"
	}
	if len(pod.Spec.Containers) == 0 {
		pod.Spec.Containers = []v1.Container{{}}
	}
	for i := range pod.Spec.Containers {
		setDefault(&pod.Spec.Containers[i].Name, "web")
		setDefault(&pod.Spec.Containers[i].Image, "example.com/web:1")
	}
	SetDefaults(pod)
	return pod
}

func errorPaths(errs field.ErrorList) []string {
	set := map[string]bool{}
	for _, err := range errs {
		set[err.Field] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func TestSupportedPod(t *testing.T) {
	pod := defaultedPod(t, `
metadata: {name: web, namespace: shop, uid: abc, labels: {a: b}, annotations: {c: d}, creationTimestamp: null}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 5
  hostNetwork: true
  hostUsers: true
  enableServiceLinks: false
  automountServiceAccountToken: false
  securityContext: {}
  affinity: {}
  imagePullSecrets: []
  os: {name: linux}
  tolerations: [{operator: Exists}]
  nodeName: here
  hostname: web
  subdomain: shop
  setHostnameAsFQDN: true
  hostAliases: [{ip: 10.0.0.1, hostnames: [db]}]
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.2], searches: [shop.test], options: [{name: ndots, value: "2"}]}
  initContainers:
  - {name: init, image: example.com/init:1, command: [a], args: ["$(B)"], env: [{name: B, value: c}]}
  containers:
  - name: web
    image: example.com/web:1
    imagePullPolicy: Always
    ports: [{name: http, containerPort: 80, hostIP: 127.0.0.1, protocol: UDP}]
    securityContext: {privileged: false, runAsNonRoot: false}
    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}
    volumeMounts: [{name: tmp, mountPath: /tmp, readOnly: true, mountPropagation: None}, {name: host, mountPath: /host}]
  volumes:
  - {name: tmp, emptyDir: {}}
  - {name: host, hostPath: {path: /srv, type: DirectoryOrCreate}}
  - {name: none}
status: {phase: Running}
`)
	if errs := Unsupported(pod); len(errs) > 0 {
		t.Errorf("refused: %v", errs.ToAggregate())
	}
	if errs := ValidatePod(pod); len(errs) > 0 {
		t.Errorf("invalid: %v", errs.ToAggregate())
	}
}

func TestUnsupportedFieldIsReportedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"spread over zones": {
			`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}`,
			nil},
		"labels of namespaces": {
			`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: x}}}, {topologyKey: a, namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}}]}}}`,
			[]string{"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].namespaceSelector"}},
		"second container": {`{containers: [{name: a}, {name: b, resources: {claims: [{name: c}]}}]}`,
			[]string{"spec.containers[1].resources.claims"}},
		"volume": {`{volumes: [{name: a, iscsi: {targetPortal: a, iqn: b, lun: 0}}]}`,
			[]string{"spec.volumes[0].iscsi"}},
		"resource claims":      {`{resourceClaims: [{name: gpu, resourceClaimName: gpu}]}`, []string{"spec.resourceClaims"}},
		"service account":      {`{serviceAccountName: a}`, []string{"spec.serviceAccountName"}},
		"placement":            {`{schedulingGates: [{name: a}], priority: 1}`, []string{"spec.schedulingGates"}},
		"service account, old": {`{serviceAccount: a}`, []string{"spec.serviceAccountName"}},
		"service account token": {`{serviceAccountName: a, automountServiceAccountToken: true}`,
			[]string{"spec.automountServiceAccountToken"}},
		"token of the default": {`{serviceAccountName: default, automountServiceAccountToken: true}`,
			[]string{"spec.automountServiceAccountToken"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Unsupported(defaultedPod(t, "spec: "+c.spec))
			if got := errorPaths(errs); !slices.Equal(got, c.want) || len(errs) != len(c.want) {
				t.Errorf("got %v, want %v", errs, c.want)
			}
			for _, err := range errs {
				if err.Type != field.ErrorTypeForbidden || !strings.Contains(err.Detail, "; ") {
					t.Errorf("unclear: %v", err)
				}
			}
		})
	}
}

func TestServiceAccountWithoutToken(t *testing.T) {
	for _, spec := range []string{`{serviceAccountName: a, automountServiceAccountToken: false}`,
		`{serviceAccountName: default}`, `{serviceAccount: default}`} {
		if errs := Unsupported(defaultedPod(t, "spec: "+spec)); len(errs) > 0 {
			t.Errorf("%s: %v", spec, errs)
		}
	}
}

func TestUnknownCapabilities(t *testing.T) {
	pod := defaultedPod(t,
		`spec: {initContainers: [{name: i, image: i, securityContext: {capabilities: {add: [NETADMIN]}}}],
  containers: [{securityContext: {capabilities: {drop: [ALL, all, x], add: [net_admin, CAP_CHOWN]}}}]}`)
	errs := Unsupported(pod)
	want := []string{"spec.containers[0].securityContext.capabilities.drop[2]",
		"spec.initContainers[0].securityContext.capabilities.add[0]"}
	if got := errorPaths(errs); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if !strings.Contains(errs[0].Detail, "did you mean NET_ADMIN?") ||
		!strings.Contains(errs[1].Detail, "must be a capability such as") {
		t.Errorf("unclear: %v", errs)
	}
}

func TestUnsupportedAnnotations(t *testing.T) {
	pod := defaultedPod(t,
		`metadata: {annotations: {a: b, cdi.k8s.io/gpu: vendor.com/gpu=0, kubernetes.io/config.mirror: c, container.apparmor.security.beta.kubernetes.io/web: localhost/}}`)
	want := []string{
		"metadata.annotations[cdi.k8s.io/gpu]",
		"metadata.annotations[container.apparmor.security.beta.kubernetes.io/web]",
		"metadata.annotations[kubernetes.io/config.mirror]",
	}
	if got := errorPaths(Unsupported(pod)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestUnknownFieldIsUnsupported simulates an API with a new field.
func TestUnknownFieldIsUnsupported(t *testing.T) {
	type grown struct {
		New string `json:"new"`
	}
	errs := structVerdict{}.check(field.NewPath("spec"), reflect.ValueOf(grown{New: "x"}))
	if got := errorPaths(errs); !slices.Equal(got, []string{"spec.new"}) {
		t.Errorf("got %v", errs)
	}
}

// TestExplicitZeroIsChecked: a number or boolean that is set is checked, even if
// it is zero.
func TestExplicitZeroIsChecked(t *testing.T) {
	type spec struct {
		Seconds *int64 `json:"seconds"`
		On      *bool  `json:"on"`
		Off     *bool  `json:"off"`
	}
	verdicts := structVerdict{"seconds": notSupportedYet("seconds are"), "on": unless(notSupportedYet("this is"), true),
		"off": notSupportedYet("that is")}
	errs := verdicts.check(field.NewPath("spec"), reflect.ValueOf(spec{Seconds: new(int64), On: new(bool)}))
	if got := errorPaths(errs); !slices.Equal(got, []string{"spec.on", "spec.seconds"}) {
		t.Errorf("got %v", errs)
	}
}

// What a cluster has seen to is not asked of this node; what it would have to do
// and cannot is rejected.
func TestUnsupportedBound(t *testing.T) {
	pod := defaultedPod(t, `
metadata: {name: web, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 5, annotations: {container.apparmor.security.beta.kubernetes.io/web: unconfined, cdi.k8s.io/gpu: vendor.com/gpu=0}}
spec:
  serviceAccountName: robot
  automountServiceAccountToken: true
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
  os: {name: windows}
  securityContext: {windowsOptions: {runAsUserName: ContainerUser}}
  initContainers: [{name: init, image: x, securityContext: {windowsOptions: {gmsaCredentialSpecName: spec}}}]
  containers: [{name: web, image: x, securityContext: {windowsOptions: {runAsUserName: ContainerUser, hostProcess: false}}}]
  ephemeralContainers: [{name: debug, image: x, targetContainerName: web, securityContext: {windowsOptions: {runAsUserName: ContainerUser}}}]
  volumes:
  - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
  - {name: data, persistentVolumeClaim: {claimName: data, readOnly: true}}
  - {name: secrets, csi: {driver: example.com, readOnly: true, volumeAttributes: {class: vault}}}
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}}}}
`)
	if errs := UnsupportedBound(pod); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
	pod = defaultedPod(t, `
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers: [{name: web, image: x, volumeDevices: [{name: data, devicePath: /dev/disk}], securityContext: {capabilities: {add: [NET_ADMINS]}}}]
  volumes:
  - {name: lun, iscsi: {targetPortal: a, iqn: b, lun: 0}}
`)
	want := []string{
		"spec.containers[0].securityContext.capabilities.add[0]",
		"spec.volumes[0].iscsi",
	}
	errs := UnsupportedBound(pod)
	if got := errorPaths(errs); !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	for _, err := range errs {
		if strings.HasPrefix(err.Field, "spec.volumes") && err.Detail != string(noDriver) {
			t.Errorf("the error for a pod of a cluster is %v", err)
		}
	}
}
