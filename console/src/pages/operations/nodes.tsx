import { useQuery } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Time } from '../../ui/format.tsx'
import { Badge, Page } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { Findings } from './findings.tsx'

type Node = components['schemas']['Node']

const pollMs = 10_000

/** The page that lists the nodes, and the findings of the checks about them. */
export function Nodes() {
  const api = useApi()
  const health = useQuery({ queryKey: ['health'], queryFn: () => unwrap(api.GET('/api/health')) })
  const findings = health.data?.checks.filter(({ area }) => area === 'nodes') ?? []
  return (
    <Page title="Nodes" about="The processes that serve the database. Each sends a heartbeat every 10 seconds.">
      <NodeList pollMs={pollMs} />
      <Findings checks={findings} />
    </Page>
  )
}

/** The processes that use the database; reads them every `pollMs`. */
export function NodeList({ pollMs }: { pollMs: number }) {
  const api = useApi()
  const nodes = useQuery({
    queryKey: ['nodes'],
    queryFn: () => unwrap(api.GET('/api/nodes', { params: { query: { limit: 200 } } })),
    refetchInterval: pollMs,
  })
  return (
    <Loaded query={nodes}>
      {(list) => (list.length === 0 ? <Empty title="No node is running" /> : <NodeTable nodes={list} />)}
    </Loaded>
  )
}

function NodeTable({ nodes }: { nodes: readonly Node[] }) {
  const newest = nodes[0]
  return (
    <Table
      label="Nodes"
      rows={nodes}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Node',
          cell: ({ hostname, pid, self }) => (
            <>
              <strong>{hostname}</strong> {pid} {self && <Badge tone="info">this node</Badge>}
            </>
          ),
        },
        {
          title: 'State',
          cell: ({ status }) => <Badge tone={status === 'live' ? 'good' : 'wrong'}>{status}</Badge>,
        },
        {
          title: 'Release',
          cell: ({ version, definition, schemaVersion }) => (
            <>
              {version} {newest && definition !== newest.definition && <Badge tone="warn">other definition</Badge>}
              <div className="quiet small">{schemaVersion}</div>
            </>
          ),
        },
        { title: 'Roles', cell: ({ roles }) => roles.join(', ') },
        { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} isRelative /> },
        {
          title: 'Heartbeat',
          cell: ({ heartbeatAt }) => <Time at={heartbeatAt} isRelative />,
        },
        { title: 'Clock ahead', isNumber: true, cell: ({ clockAheadMs }) => `${clockAheadMs} ms` },
      ]}
    />
  )
}
