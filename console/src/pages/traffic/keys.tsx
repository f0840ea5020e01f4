import { useQuery } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { countText, Time } from '../../ui/format.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import type { Limited } from './limits-dialog.tsx'

/** The most keys that one page of the API has. */
const most = 200

/** The API keys with their limits. */
export function Keys({ onLimits }: { onLimits: (of: Limited) => void }) {
  const api = useApi()
  const keys = useQuery({
    queryKey: ['api-keys', 'limits'],
    queryFn: () => unwrap(api.GET('/api/keys', { params: { query: { limit: most } } })),
  })
  return (
    <Loaded query={keys}>
      {(rows) =>
        rows.length === 0 ? (
          <Empty title="There are no API keys" />
        ) : (
          <Table
            label="API keys"
            rows={rows}
            keyOf={({ id }) => id}
            columns={[
              { title: 'Name', cell: ({ name }) => name },
              { title: 'Begins with', cell: ({ hint }) => <code>{hint}</code> },
              { title: 'Rate', cell: ({ rate }) => rate ?? 'default' },
              { title: 'Quota per month', cell: ({ quota }) => (quota ? countText(quota) : 'default') },
              { title: 'Last used', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} isRelative /> },
              {
                title: 'Limits',
                cell: ({ id, name }) => (
                  <Button isCompact onPress={() => onLimits({ kind: 'key', id, name })}>
                    Limits<span className="visually-hidden"> of {name}</span>
                  </Button>
                ),
              },
            ]}
          />
        )
      }
    </Loaded>
  )
}
