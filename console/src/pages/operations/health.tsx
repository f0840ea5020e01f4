import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { Time } from '../../ui/format.tsx'
import { Facts, Page, Section } from '../../ui/page.tsx'
import { ErrorNotice, Loaded } from '../../ui/states.tsx'
import { type Check, Findings, type Report, StatusBadge } from './findings.tsx'
import { StorageUse } from './storage.tsx'

type Examination = components['schemas']['HealthExamination']

const route = getRouteApi('/health')
const runningMs = 2_000
const restingMs = 60_000

/** The findings of the checks, with or without the deep checks, and the disk usage. */
export function Health() {
  const api = useApi()
  const { report } = route.useSearch()
  const health = useQuery({
    queryKey: ['health'],
    queryFn: () => unwrap(api.GET('/api/health')),
    refetchInterval: restingMs,
  })
  const examination = useQuery({
    queryKey: ['health', 'examination'],
    queryFn: () => unwrap(api.GET('/api/health/examination')),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? runningMs : false),
  })
  const deep = examination.data?.report
  const isDeep = report === 'deep' && deep !== undefined
  return (
    <Page
      title="Health"
      about="The checks of plinth doctor on the node that responds, with what to do about each finding."
      actions={
        <Button isDisabled={health.isFetching} onPress={() => void health.refetch()}>
          Check again
        </Button>
      }
    >
      <Loaded query={health}>
        {(current) => (
          <>
            <Summary report={isDeep ? deep : current} />
            <Examined examination={examination.data} error={examination.error} />
            {deep !== undefined && <Choice />}
            <Findings checks={(isDeep ? deep : current).checks} />
          </>
        )}
      </Loaded>
      <StorageUse />
    </Page>
  )
}

// Without `exact`, the link to the quick checks would also be marked as current on the page with all checks.
const exact = { exact: true }

function Choice() {
  return (
    <nav className="tabs" aria-label="Which checks">
      <Link to="/health" search={{}} replace activeOptions={exact}>
        Quick checks, now
      </Link>
      <Link to="/health" search={{ report: 'deep' }} replace activeOptions={exact}>
        With the last deep checks
      </Link>
    </nav>
  )
}

const shown = ['tls.expiry', 'backups.schedule', 'files.space', 'nodes.heartbeat', 'audit.chain']

function Summary({ report: { status, checkedAt, checks } }: { report: Report }) {
  const facts = shown
    .flatMap((id) => checks.filter((check) => check.id === id))
    .map(
      ({ title, detail, status }: Check) =>
        [
          title,
          <span className="row" key={title}>
            <StatusBadge status={status} /> {detail}
          </span>,
        ] as const,
    )
  return (
    <div className="card">
      <Facts
        of={[
          ['All checks', <StatusBadge key="all" status={status} />],
          ['Checked', <Time key="at" at={checkedAt} isRelative />],
          ...facts,
        ]}
      />
    </div>
  )
}

function Examined({ examination, error }: { examination: Examination | undefined; error: unknown }) {
  const api = useApi()
  const client = useQueryClient()
  const start = useMutation({
    mutationFn: () => unwrap(api.POST('/api/health/examination')),
    onSettled: () => client.invalidateQueries({ queryKey: ['health', 'examination'] }),
  })
  const failure = start.error ?? error
  const isRunning = examination?.status === 'running' || start.isPending
  return (
    <Section
      title="Deep checks"
      actions={
        <Button isDisabled={isRunning} onPress={() => start.mutate()}>
          Run deep checks
        </Button>
      }
    >
      <div className="card stack tight">
        <p>
          They read the whole database and verify the whole audit log, in a thread. This takes minutes if there is much
          data; requests do not wait for it.
        </p>
        <p role="status">{examination && <ExaminationState examination={examination} />}</p>
        <ErrorNotice error={failure} />
      </div>
    </Section>
  )
}

function ExaminationState({ examination }: { examination: Examination }) {
  const { status, node, startedAt, finishedAt, error } = examination
  if (status === 'never') return <>They have not been run yet.</>
  if (status === 'running')
    return (
      <>
        Running on {node} since <Time at={startedAt} isRelative /> …
      </>
    )
  if (status === 'failed')
    return (
      <>
        The checks that began <Time at={startedAt} isRelative /> could not be completed: {error}
      </>
    )
  return (
    <>
      Last run <Time at={finishedAt} isRelative /> on {node}.
    </>
  )
}
