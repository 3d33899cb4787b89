package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/configfile"
)

// read reads a KubeletConfiguration, and returns what is wrong with it alone.
func read(t *testing.T, fields string) (path string, o *Options, r *reader) {
	t.Helper()
	path = filepath.Join(files(t, map[string]string{"config.yaml": kubeletHead + fields}), "config.yaml")
	loaded, err := configfile.Load(path, "", kubeletKind)
	if err != nil {
		t.Fatal(err)
	}
	o = &Options{}
	o.AddFlags(pflag.NewFlagSet("run", pflag.ContinueOnError))
	r = o.table.read(kubeletKind, loaded.Merged(kubeletKind.Kind))
	return path, o, r
}

func TestIgnoredFields(t *testing.T) {
	_, o, r := read(t, "maxOpenFiles: 5\nauthorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: "+
		"1m}}\nevictionHard: null\nevictionSoft: {containerfs.available: 5%}\nauthentication: {webhook: {enabled: true}, "+
		"anonymous: {enabled: true}}\n")
	if err := o.table.err(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"authentication.anonymous.enabled", "evictionSoft.containerfs.available",
		"maxOpenFiles"}; !slices.Equal(r.ignored, want) {
		t.Errorf("ignored are %v, want %v", r.ignored, want)
	}
}

// A field about resources that cannot be honoured is an error with its position and what to do.
func TestRefusedFields(t *testing.T) {
	path, o, r := read(t, "qosReserved: {memory: 50%}\ncgroupsPerQOS: false\nlocalStorageCapacityIsolation: false\n")
	if err := o.table.err(); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range r.refused {
		texts = append(texts, f.Error())
	}
	for _, want := range []string{
		":3: qosReserved: is not supported: memory is not reserved by QoS class; remove the field",
		":4: cgroupsPerQOS: false ", ":5: localStorageCapacityIsolation: false ",
	} {
		if !slices.ContainsFunc(texts, func(text string) bool {
			return strings.HasPrefix(text, path+want) && strings.Contains(text, "is not supported: ") &&
				strings.Contains(text, "; ")
		}) {
			t.Errorf("no error %q in %q", want, texts)
		}
	}
	if len(texts) != 3 || len(r.ignored) > 0 {
		t.Errorf("%d errors, ignored are %v", len(texts), r.ignored)
	}
	// The defaults of a kubelet are none.
	_, o, r = read(t, "cpuManagerPolicy: none\ncpuManagerPolicyOptions: {}\nmemoryManagerPolicy: "+
		"None\nmemoryReservationPolicy: None\nmemoryThrottlingFactor: 0.9\ntopologyManagerPolicy: none\ncgroupsPerQOS: "+
		"true\nmemorySwap: {}\nsystemReservedCgroup: ''\nreservedMemory: []\n")
	if err := o.table.err(); err != nil || len(r.refused) > 0 || len(r.ignored) > 0 {
		t.Error(err, r.refused, r.ignored)
	}
}

func TestErrorsInAKubeletConfiguration(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"swap behaviour": {kubeletHead + "memorySwap: {swapBehavior: UnlimitedSwap}\n",
			"memorySwap.swapBehavior: UnlimitedSwap is not a valid behaviour; use NoSwap or LimitedSwap"},
		"reserved memory": {kubeletHead + "reservedMemory: {memory: 1Gi}\n",
			":3: reservedMemory: must be a list, such as [{numaNode: 0, limits: {memory: 1Gi}}]"},
		"reserved memory of none": {kubeletHead + "reservedMemory: [{}]\n",
			"reservedMemory[0]: must have numaNode and limits"},
		"reserved memory field": {kubeletHead + "reservedMemory: [{node: 0, limits: {memory: 1Gi}}]\n",
			"reservedMemory[0].node: unknown field; did you mean numaNode or limits?"},
		"reserved memory limits": {kubeletHead + "reservedMemory: [{numaNode: 0}]\n",
			"reservedMemory[0].limits: must have an amount"},
		"feature gate": {kubeletHead + "featureGates: {MemoryQoS: 1}\n",
			"featureGates.MemoryQoS: 1 is not a boolean"},
		"throttling": {kubeletHead + "memoryThrottlingFactor: 1.5\n",
			"memoryThrottlingFactor: 1.5 must be a number above 0, and at most 1"},
		"throttling without QoS": {kubeletHead + "memoryThrottlingFactor: 0.5\n",
			":3: memoryThrottlingFactor: 0.5 has an effect only with memory QoS; set featureGates: {MemoryQoS: true}"},
		"reservation": {kubeletHead + "memoryReservationPolicy: All\n",
			"memoryReservationPolicy: All is not a policy"},
		"reservation without QoS": {kubeletHead + "memoryReservationPolicy: TieredReservation\n",
			"TieredReservation has an effect only with memory QoS"},
		"CPU options": {kubeletHead + "cpuManagerPolicyOptions: {full-pcpus-only: true}\n",
			"cpuManagerPolicyOptions.full-pcpus-only: true is not a string; quote it"},
		"unknown field": {kubeletHead + "staticPodPaht: /x\n",
			"staticPodPaht: unknown field; did you mean staticPodPath?"},
		"nothing similar": {kubeletHead + "zzz: 1\n", "zzz: unknown field"},
		"pods":            {kubeletHead + "maxPods: -1\n", "maxPods: -1 must be an integer from 0"},
		"duplicate":       {kubeletHead + "maxPods: 1\nmaxPods: 2\n", "maxPods"},
		"kind":            {"apiVersion: v1\nkind: Pod\n", "must be kubelet.config.k8s.io/v1beta1"},
		"duration":        {kubeletHead + "fileCheckFrequency: 20\n", "fileCheckFrequency: 20 is not a valid duration"},
		"negative":        {kubeletHead + "fileCheckFrequency: -1s\n", `"-1s" is negative`},
		"port":            {kubeletHead + "healthzPort: 70000\n", "healthzPort: 70000 must be an integer from 0 to 65535"},
		"fraction":        {kubeletHead + "healthzPort: 1.5\n", "1.5 must be an integer"},
		"header":          {kubeletHead + "staticPodURLHeader: {A: b}\n", "staticPodURLHeader.A: must be a list"},
		"header value": {kubeletHead + "staticPodURLHeader: {A: [31337]}\n",
			"staticPodURLHeader.A[0]: must be a string; quote it"},
		"headers": {kubeletHead + "staticPodURLHeader: 31337\n",
			"staticPodURLHeader: must be a map of header to list of values"},
		"contradiction": {kubeletHead + "maxParallelImagePulls: 3\nserializeImagePulls: true\n",
			"conflicts with maxParallelImagePulls 3"},
		"verification": {kubeletHead + "imagePullCredentialsVerificationPolicy: Sometimes\n",
			`imagePullCredentialsVerificationPolicy: "Sometimes": must be NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify`},
		"verification kind": {kubeletHead + "imagePullCredentialsVerificationPolicy: 1\n",
			"imagePullCredentialsVerificationPolicy: 1 is not a string"},
		"useless list": {kubeletHead + "preloadedImagesVerificationAllowlist: [r.test/app]\n",
			"preloadedImagesVerificationAllowlist: has an effect only with imagePullCredentialsVerificationPolicy: " +
				"NeverVerifyAllowlistedImages"},
		"list of tags": {kubeletHead + "imagePullCredentialsVerificationPolicy: " +
			"NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [r.test/app, r.test/app:1]\n",
			`preloadedImagesVerificationAllowlist[1]: "r.test/app:1": must have no tag`},
		"back-off": {kubeletHead + "crashLoopBackOff: {maxContainerRestartPeriod: 10m}\n",
			"crashLoopBackOff.maxContainerRestartPeriod=10m0s: must be 1s to 5m"},
		"back-off field": {kubeletHead + "crashLoopBackOff: {max: 10m}\n", "crashLoopBackOff.max: unknown field"},
		"reserved":       {kubeletHead + "systemReserved: {cpu: [1]}\n", "systemReserved.cpu: [1] is not a valid quantity"},
		"authorization": {kubeletHead + "authorization: {mode: RBAC}\n",
			`authorization.mode="RBAC": must be Webhook or AlwaysAllow`},
		"authentication": {kubeletHead + "authentication: {x509: {caFile: /x}}\n",
			"authentication.x509.caFile: unknown field"},
		"eviction": {kubeletHead + "evictionHard: [memory]\n", "evictionHard: must be a map of signal to amount"},
		"threshold": {kubeletHead + "evictionHard: {memory.available: [1]}\n",
			"evictionHard.memory.available: [1] is not a string"},
		"taint": {kubeletHead + "registerWithTaints: [{key: a, affect: NoSchedule}]\n",
			"registerWithTaints[0].affect: unknown field"},
		"lease":   {kubeletHead + "nodeLeaseDurationSeconds: 1\n", "nodeLeaseDurationSeconds: 1 must be an integer from 4"},
		"tracing": {kubeletHead + "tracing: {endpoint: 'http://x/y'}\n", `tracing.endpoint: "http://x/y" must be HOST:PORT`},
		"sampling": {kubeletHead + "tracing: {samplingRatePerMillion: 2000000}\n",
			"tracing.samplingRatePerMillion: 2e+06 must be an integer from 0 to 1000000"},
		"traces":  {kubeletHead + "tracing: {rate: 1}\n", "tracing.rate: unknown field"},
		"boolean": {kubeletHead + "cpuCFSQuota: maybe\n", "maybe is not a boolean"},
		"yaml":    {"{", "YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(files(t, map[string]string{"config.yaml": c.body}), "config.yaml")
			_, _, err := complete(t, "--config="+path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+":") {
				t.Errorf("%v, want %q after the file's path", err, c.want)
			}
		})
	}
}

// The file that `kubeadm init` of 1.36 writes contains every field that is not a pointer, with
// zero values for defaults. None of those is reported as unsupported.
func TestKubeadmFile(t *testing.T) {
	o, notices, err := complete(t, "--config=testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, notice := range notices {
		if strings.Contains(notice, "does not support") {
			t.Error(notice)
		}
	}
	if o.Manifests.Path != "/etc/kubernetes/manifests" || o.Remote.ClientCAFile != "/etc/kubernetes/pki/ca.crt" ||
		o.Eviction.Transition != 5*time.Minute || o.Manifests.FileCheck != 20*time.Second {
		t.Errorf("%+v", o)
	}
	for _, v := range []any{&o.Eviction.Transition, &o.Manifests.FileCheck} {
		if o.table.at(v).isSet() {
			t.Errorf("%s is set", o.table.at(v))
		}
	}
}
