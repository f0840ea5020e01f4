import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Prose } from '../../ui/code.tsx'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { countText } from '../../ui/format.tsx'
import { Badge, Page } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'

type Setting = components['schemas']['Setting']

const route = getRouteApi('/settings')
const sources = [
  { value: '', label: 'All settings' },
  { value: 'environment', label: 'Set in the environment' },
  { value: 'default', label: 'With their default' },
] as const

/** The settings of the node that handles the request. */
export function Settings() {
  const api = useApi()
  const { q = '', source = '' } = route.useSearch()
  const navigate = route.useNavigate()
  const query = useQuery({ queryKey: ['settings'], queryFn: () => unwrap(api.GET('/api/settings')) })
  const search = (change: { q?: string; source?: string }) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  return (
    <Page
      title="Settings"
      about="The settings in force on the node that responds. They come from its environment and its file .env; a change needs a restart. Secrets are hidden."
    >
      <search className="filters">
        <TextField
          label="Filter"
          type="search"
          value={q}
          placeholder="backup"
          onChange={(text) => search({ q: text })}
        />
        <SelectField label="Source" value={source} options={sources} onChange={(value) => search({ source: value })} />
      </search>
      <Loaded query={query}>{(all) => <SettingTable all={all} q={q} source={source} />}</Loaded>
    </Page>
  )
}

function SettingTable({ all, q, source }: { all: readonly Setting[]; q: string; source: string }) {
  const words = q.toLowerCase().split(/\s+/)
  const matches = ({ name, group, about, value = '' }: Setting) => {
    const text = `${name} ${group} ${about} ${value}`.toLowerCase()
    return words.every((word) => text.includes(word))
  }
  const rows = all.filter((setting) => (source === '' || setting.source === source) && matches(setting))
  if (rows.length === 0)
    return (
      <Empty title="No setting matches">
        <p>Use fewer words, or show all settings.</p>
      </Empty>
    )
  return (
    <>
      <p className="quiet small" role="status">
        {countText(rows.length)} of {countText(all.length)} settings
      </p>
      <Table
        label="Settings"
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          {
            title: 'Setting',
            cell: ({ name, about }) => (
              <>
                <code>{name}</code>
                <div className="quiet small">
                  <Prose>{about}</Prose>
                </div>
              </>
            ),
          },
          { title: 'Value', cell: (setting) => <Value setting={setting} /> },
          {
            title: 'Source',
            cell: ({ source }) => <Badge tone={source === 'environment' ? 'info' : undefined}>{source}</Badge>,
          },
          {
            title: 'Default',
            cell: (setting) => (setting.default === undefined ? '–' : <code>{setting.default}</code>),
          },
        ]}
      />
    </>
  )
}

function Value({ setting: { value, secret } }: { setting: Setting }) {
  if (value === undefined) return <span className="quiet">not set</span>
  return secret ? <span className="quiet">set, hidden</span> : <code>{value}</code>
}
