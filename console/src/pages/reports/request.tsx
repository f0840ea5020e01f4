import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useAttempt } from '../../api/attempt.ts'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { fieldError, SelectField, TextField } from '../../ui/fields.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, ErrorNotice, Loaded } from '../../ui/states.tsx'
import { ParameterFields, parametersOf, type Schema, type Values } from './parameters.tsx'
import { type ReportType, useReportTypes } from './parts.tsx'

/** The form that requests a report. Its fields depend on the report type. */
export function RequestReport() {
  const { may } = useSession()
  const query = useReportTypes()
  if (!may('reports:write')) return <Empty title="You may not request reports" />
  return (
    <Page title="Request a report" about="You can leave the page: the report is made in the background.">
      <Loaded query={query}>
        {(types) => {
          const offered = types.filter(({ scope }) => scope === undefined || may(scope))
          const [first] = offered
          return first === undefined ? (
            <Empty title="There is no report that you may request" />
          ) : (
            <Form types={offered} first={first} />
          )
        }}
      </Loaded>
    </Page>
  )
}

function Form({ types, first }: { types: readonly ReportType[]; first: ReportType }) {
  const [name, setName] = useState(first.reportType)
  const [format, setFormat] = useState<string>('csv')
  const [webhookUrl, setWebhookUrl] = useState('')
  const [values, setValues] = useState<Values>({})
  const type = types.find(({ reportType }) => reportType === name) ?? first
  const schema = type.parameters as Schema
  const requesting = useRequest()
  const choose = (reportType: string) => {
    setName(reportType)
    setValues({})
    requesting.reset()
  }
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault()
        requesting.mutate(bodyOf(type, { format, webhookUrl, values }))
      }}
    >
      <SelectField
        label="Report"
        value={type.reportType}
        onChange={choose}
        options={types.map(({ reportType, title }) => ({ value: reportType, label: title }))}
      />
      <SelectField
        label="Format"
        value={format}
        onChange={setFormat}
        options={type.formats.map((value) => ({ value, label: value.toUpperCase() }))}
        error={fieldError(requesting.error, 'format')}
      />
      <ParameterFields schema={schema} values={values} onChange={setValues} error={requesting.error} />
      <TextField
        label="Address to call when it has finished"
        type="url"
        value={webhookUrl}
        onChange={setWebhookUrl}
        error={fieldError(requesting.error, 'webhookUrl')}
      />
      <ErrorNotice error={requesting.error} />
      <div className="row">
        <Button type="submit" look="primary" isDisabled={requesting.isPending}>
          Request
        </Button>
        <Link to="/reports" className="button">
          Cancel
        </Link>
      </div>
    </form>
  )
}

type Body = components['schemas']['ReportCreate']

interface Draft {
  format: string
  webhookUrl: string
  values: Values
}

function bodyOf({ reportType, parameters: schema }: ReportType, { format, webhookUrl, values }: Draft): Body {
  const parameters = parametersOf(schema as Schema, values)
  return {
    ...{ reportType, format },
    ...(Object.keys(parameters).length > 0 && { parameters }),
    ...(webhookUrl !== '' && { webhookUrl }),
  } as Body
}

/** Requests a report, then navigates to its page. */
function useRequest() {
  const api = useApi()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const attempt = useAttempt()
  return useMutation({
    mutationFn: (body: Body) =>
      attempt(body, (key) =>
        unwrap(api.POST('/api/reports', { params: { header: { 'Idempotency-Key': key } }, body })),
      ),
    onSuccess: async ({ taskId }) => {
      await queries.invalidateQueries({ queryKey: ['reports', 'list'] })
      await navigate({ to: '/reports/$taskId', params: { taskId } })
    },
  })
}
