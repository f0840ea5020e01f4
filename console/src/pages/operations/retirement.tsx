import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Code } from '../../ui/code.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { countText, OwnerText, Time } from '../../ui/format.tsx'
import { Badge, Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'

type Plan = components['schemas']['Retirement']

const fewRows = 100
const manyResults = 10_000

/** The dry run of a version's retirement: which callers must migrate first, and which setting to change. */
export function RetirementPlan({ version }: { version: string }) {
  const api = useApi()
  const query = useQuery({
    queryKey: ['versions', version, 'retirement'],
    queryFn: () => unwrap(api.GET('/api/versions/{version}/retirement', { params: { path: { version } } })),
  })
  return (
    <Loaded query={query}>
      {(plan) => (
        <>
          <Section title={`Before ${version} is retired`}>
            <Summary plan={plan} />
          </Section>
          <Section title={`Clients that call ${version} (${countText(plan.clients.length)})`}>
            <Clients plan={plan} />
          </Section>
          <Section title={`Webhooks with the fields of ${version} (${countText(plan.webhooks.length)})`}>
            <Webhooks plan={plan} />
          </Section>
          <Section title="How to retire it">
            <HowTo plan={plan} />
          </Section>
        </>
      )}
    </Loaded>
  )
}

function Summary({ plan: { version, clients, countedSince, results, unprefixed, status } }: { plan: Plan }) {
  const others = clients.filter(({ clientId }) => clientId !== null)
  const isClear = countedSince !== undefined && clients.length === 0
  return (
    <div className={isClear ? 'notice good stack tight' : 'notice warn stack tight'} role="status">
      <p>
        <strong>
          {countedSince === undefined
            ? `The calls to ${version} are not counted, because it is ${status}.`
            : isClear
              ? `No client has called ${version} since it was deprecated.`
              : summaryOf(others.length, clients.length - others.length)}
        </strong>
      </p>
      {countedSince === undefined ? (
        <p>Deprecate it first: then this page lists every client that calls it.</p>
      ) : (
        <p>
          Calls are counted since <Time at={countedSince} />.
        </p>
      )}
      {unprefixed && <p>Paths without a prefix, such as /users, belong to {version} and would be retired as well.</p>}
      {results > 0 && (
        <p>
          {countText(results)}
          {results >= manyResults && ' or more'} report results can still be downloaded at its paths. Links to them that
          were sent earlier would stop working.
        </p>
      )}
    </div>
  )
}

function summaryOf(others: number, rest: number): string {
  if (others === 0) return `No registered client must move, but see the ${rest === 1 ? 'caller' : 'callers'} below.`
  return `${countText(others)} ${others === 1 ? 'client' : 'clients'} must move first.`
}

function Clients({ plan: { clients, countedSince, version } }: { plan: Plan }) {
  if (clients.length === 0)
    return <p className="quiet">{countedSince === undefined ? 'Not counted.' : `No client calls ${version}.`}</p>
  return (
    <>
      <Table
        label="Clients that must move"
        rows={clients.slice(0, fewRows)}
        keyOf={({ clientId }) => clientId ?? ''}
        columns={[
          {
            title: 'Client',
            cell: ({ clientId, name }) =>
              clientId === null ? (
                'Without a valid token, taken together'
              ) : (
                <>
                  <Link to="/access/clients/$clientId" params={{ clientId }}>
                    {name ?? clientId}
                  </Link>
                  {name !== undefined && <div className="quiet small">{clientId}</div>}
                </>
              ),
          },
          { title: 'Calls', isNumber: true, cell: ({ calls }) => countText(calls) },
          { title: 'Last call', cell: ({ lastCallAt }) => <Time at={lastCallAt} isRelative /> },
        ]}
      />
      <Rest of={clients.length} />
    </>
  )
}

function Webhooks({ plan: { webhooks, successor, version } }: { plan: Plan }) {
  if (webhooks.length === 0) return <p className="quiet">No webhook is registered with {version}.</p>
  return (
    <>
      <p className="quiet">
        They continue after the retirement, with the field names of {successor ?? 'the next version'}. Their owners must
        expect these names.
      </p>
      <Table
        label="Webhooks that change"
        rows={webhooks.slice(0, fewRows)}
        keyOf={({ id }) => id}
        columns={[
          {
            title: 'Webhook',
            cell: ({ id }) => (
              <Link to="/webhooks/$id" params={{ id }}>
                {id}
              </Link>
            ),
          },
          { title: 'Event', cell: ({ event }) => event },
          {
            title: 'State',
            cell: ({ status }) => <Badge tone={status === 'active' ? 'good' : 'warn'}>{status}</Badge>,
          },
          {
            title: 'Owner',
            cell: (webhook) => <OwnerText {...webhook} />,
          },
        ]}
      />
      <Rest of={webhooks.length} />
    </>
  )
}

const Rest = ({ of }: { of: number }) =>
  of > fewRows && (
    <p className="quiet small">
      The first {countText(fewRows)} of {countText(of)}. The dry run of the API lists all.
    </p>
  )

function HowTo({ plan: { version, setting, successor, status } }: { plan: Plan }) {
  if (setting === undefined)
    return <p className="notice warn">{version} cannot be retired: no other version is active that could succeed it.</p>
  return (
    <div className="card stack tight">
      <ol className="steps">
        {status === 'active' && <li>Deprecate {version} with a sunset date, so that its callers are counted.</li>}
        <li>Wait until the clients above have moved to {successor}.</li>
        <li>Wait until report results at its paths have expired (PLINTH_RESULT_TTL).</li>
        <li>
          Set <code>PLINTH_VERSIONS</code> on every node to this value, and restart. Requests to {version} then get 410
          with a link to {successor}.<Code label="The value of PLINTH_VERSIONS">{setting}</Code>
          <CopyButton text={setting} label="Copy the value" />
        </li>
      </ol>
    </div>
  )
}
