// The controllers of cert-manager and its solver of HTTP-01 challenges, as one program for the lab. The main packages of the
// official programs are in modules that the Go module proxy does not serve. All controllers are those of the library, unmodified.
//
// usage: cert-manager controller [FLAG...] | cert-manager solver [FLAG...]
//
// The flags have the names and the defaults of the official programs. Unknown flags are ignored.
package main

import (
	"context"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	config "github.com/cert-manager/cert-manager/pkg/apis/config/controller/v1alpha1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	gateways "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/gateways"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
)

// The number of workers of each controller.
const workers = 5

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: cert-manager controller | solver")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	var err error
	switch command, args := os.Args[1], os.Args[2:]; command {
	case "controller":
		err = runControllers(ctx, args)
	case "solver":
		err = runSolver(ctx, args)
	default:
		log.Fatalf("no command %s", command)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// parse reads the known flags.
func parse(flags *pflag.FlagSet, args []string) error {
	flags.ParseErrorsAllowlist.UnknownFlags = true
	return flags.Parse(args)
}

func runSolver(ctx context.Context, args []string) error {
	var server solver.HTTP01Solver
	flags := pflag.NewFlagSet("solver", pflag.ContinueOnError)
	flags.IntVar(&server.ListenPort, "listen-port", 8089, "")
	flags.StringVar(&server.Domain, "domain", "", "")
	flags.StringVar(&server.Token, "token", "", "")
	flags.StringVar(&server.Key, "key", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		os.Exit(0)
	}()
	return server.Listen(klog.Background())
}

// readConfig reads the fields of a ControllerConfiguration that the chart has no flag for.
func readConfig(path string, options *controller.ConfigOptions) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var fields config.ControllerConfiguration
	err = yaml.Unmarshal(text, &fields)
	options.EnableGatewayAPI = ptr.Deref(fields.GatewayAPIConfig.Enabled, false)
	return err
}

func runControllers(ctx context.Context, args []string) error {
	options := controller.ContextOptions{
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterIssuerAmbientCredentials: true},
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			DNS01CheckRetryPeriod:             10 * time.Second,
		},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind:                 "Issuer",
			DefaultIssuerGroup:                "cert-manager.io",
			DefaultAutoCertificateAnnotations: []string{"kubernetes.io/tls-acme"},
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.StringVar(&options.ClusterResourceNamespace, "cluster-resource-namespace", "kube-system", "")
	flags.StringVar(&options.HTTP01SolverImage, "acme-http01-solver-image", "", "")
	flags.StringSliceVar(&options.HTTP01SolverNameservers, "acme-http01-solver-nameservers", nil, "")
	flags.IntVar(&options.MaxConcurrentChallenges, "max-concurrent-challenges", 60, "")
	file := flags.String("config", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := readConfig(*file, &options.ConfigOptions); err != nil {
		return err
	}
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	known := controller.Known()
	// Informers start after all controllers have registered theirs.
	var controllers []controller.Interface
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.HasPrefix(name, "certificatesigningrequests-") || name == gateways.ControllerName && !options.EnableGatewayAPI {
			continue
		}
		one, err := known[name](factory)
		if err != nil {
			return err
		}
		log.Printf("controller %s", name)
		controllers = append(controllers, one)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	if options.EnableGatewayAPI {
		shared.GWShared.Start(ctx.Done())
	}
	for _, one := range controllers {
		tasks.Go(func() error { return one.Run(workers, ctx) })
	}
	return tasks.Wait()
}
