import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { countText, Time } from '../../ui/format.tsx'
import { Badge, Page, type Tone } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { RetirementPlan } from './retirement.tsx'

type Version = components['schemas']['Version']

const route = getRouteApi('/versions')
const tones: Record<Version['status'], Tone> = { active: 'good', deprecated: 'warn', retired: 'wrong' }

/** The API versions, the callers of deprecated versions, and the effects of a retirement. */
export function Versions() {
  const api = useApi()
  const { version } = route.useSearch()
  const query = useQuery({ queryKey: ['versions'], queryFn: () => unwrap(api.GET('/api/versions')) })
  return (
    <Page
      title="Versions"
      about="The setting PLINTH_VERSIONS deprecates and retires them. Calls are counted while a version is deprecated."
    >
      <Loaded query={query}>
        {(versions) => {
          const chosen = version ?? versions.find(({ status }) => status === 'deprecated')?.version
          return (
            <>
              <VersionTable versions={versions} chosen={chosen} />
              {chosen === undefined ? (
                <p className="quiet">
                  No version is deprecated. Choose a version to see what its retirement would stop.
                </p>
              ) : (
                <RetirementPlan key={chosen} version={chosen} />
              )}
            </>
          )
        }}
      </Loaded>
    </Page>
  )
}

function VersionTable({ versions, chosen }: { versions: readonly Version[]; chosen: string | undefined }) {
  return (
    <Table
      label="Versions"
      rows={versions}
      keyOf={({ version }) => version}
      columns={[
        {
          title: 'Version',
          cell: ({ version, successor }) => (
            <>
              <strong>{version}</strong>
              {successor !== undefined && <div className="quiet small">followed by {successor}</div>}
            </>
          ),
        },
        { title: 'State', cell: ({ status }) => <Badge tone={tones[status]}>{status}</Badge> },
        { title: 'Deprecated', cell: ({ deprecatedAt }) => <Day at={deprecatedAt} /> },
        { title: 'Sunset', cell: ({ sunsetAt }) => <Day at={sunsetAt} /> },
        {
          title: 'Callers',
          cell: ({ status, clients }) =>
            status === 'active' ? (
              <span className="quiet">not counted</span>
            ) : (
              <>
                {countText(clients.length)}
                {clients[0] && (
                  <div className="quiet small">
                    last call <Time at={clients[0].lastCallAt} isRelative />
                  </div>
                )}
              </>
            ),
        },
        {
          title: 'Retirement',
          cell: ({ version, status }) =>
            status === 'retired' ? (
              'done'
            ) : (
              <Link
                to="/versions"
                search={{ version }}
                replace
                resetScroll={false}
                aria-label={`Who must move before ${version} retires?`}
                aria-current={version === chosen ? 'true' : undefined}
              >
                Who must move?
              </Link>
            ),
        },
      ]}
    />
  )
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })

/** Shows a date in UTC, because the dates in the setting are in UTC. */
const Day = ({ at }: { at: string | undefined }) =>
  at === undefined ? (
    '–'
  ) : (
    <time dateTime={at} title={at}>
      {day.format(new Date(at))}
    </time>
  )
