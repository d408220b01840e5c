// Which names of a scope do not reach through to the variables of the chat.
//
// jinja2 decides when it compiles: a name whose first mention within a scope assigns to it, and which no scope around
// it has, belongs to that scope from its beginning. Until it is assigned to, it is undefined, even where the chat has a
// variable of that name. A name that is read first, or assigned to in one branch of an `if` alone, is looked up.
#include <set>

#include "jinja/syntax.h"

namespace windlass::jinja {
namespace {

enum class Load { looked_up, hidden, outer, parameter };

struct Symbols {
    const Symbols* parent = nullptr;
    std::map<int, Load> loads;  // of each name that the scope has, where its value comes from at first
    std::set<int> stores;

    bool has(int name) const {
        for (const Symbols* scope = this; scope != nullptr; scope = scope->parent)
            if (scope->loads.contains(name)) return true;
        return false;
    }
    bool outer_has(int name) const { return parent != nullptr && parent->has(name); }
    void load(int name) {
        if (!has(name)) loads[name] = Load::looked_up;
    }
    void store(int name) {
        stores.insert(name);
        loads.try_emplace(name, outer_has(name) ? Load::outer : Load::hidden);
    }
};

class Analysis {
  public:
    explicit Analysis(Program& program) : program_(program) {}

    void run() {
        Symbols root;
        visit_body(root, program_.body);
        program_.hidden = hidden(root);
        visit_inner(root, program_.body);
    }

  private:
    static HiddenNames hidden(const Symbols& symbols) {
        HiddenNames names;
        for (const auto& [name, load] : symbols.loads)
            if (load == Load::hidden) names.push_back(name);
        return names;
    }

    void visit(Symbols& symbols, const Expr* expr) {
        if (expr == nullptr) return;
        if (expr->kind == ExprKind::name) symbols.load(expr->name);
        for (const ExprPtr& part : expr->parts) visit(symbols, part.get());
    }
    void visit(Symbols& symbols, const Target& target) {
        for (const Target& part : target.parts) visit(symbols, part);
        if (target.is_tuple) return;
        if (target.member.empty())
            symbols.store(target.name);
        else
            symbols.load(target.name);
    }
    static void declare(Symbols& symbols, const Target& target) {
        for (const Target& part : target.parts) declare(symbols, part);
        if (!target.is_tuple) symbols.loads[target.name] = Load::parameter;
    }

    // What the statements themselves mention, without the scopes within them.
    void visit_body(Symbols& symbols, const Body& body) {
        for (const auto& stmt : body) visit_stmt(symbols, *stmt);
    }
    void visit_stmt(Symbols& symbols, const Stmt& stmt) {
        switch (stmt.kind) {
            case StmtKind::print:
            case StmtKind::for_:
                return visit(symbols, stmt.value.get());
            case StmtKind::set:
                visit(symbols, stmt.value.get());
                return visit(symbols, stmt.target);
            case StmtKind::set_block:
            case StmtKind::macro:
                return visit(symbols, stmt.target);
            case StmtKind::if_:
                return visit_if(symbols, stmt, 0);
            default:
                return;
        }
    }
    // The branches see what is before them; what they assign to is brought together after them.
    void visit_if(Symbols& symbols, const Stmt& stmt, size_t first) {
        visit(symbols, stmt.tests[first].get());
        std::vector<Symbols> branches(3, symbols);  // the body, what follows with elif, and else
        visit_body(branches[0], stmt.bodies[first]);
        for (size_t i = first + 1; i < stmt.tests.size(); ++i) visit_elif(branches[1], stmt, i);
        if (stmt.bodies.size() > stmt.tests.size()) visit_body(branches[2], stmt.bodies.back());
        unite(symbols, branches);
    }
    void visit_elif(Symbols& symbols, const Stmt& stmt, size_t index) {
        visit(symbols, stmt.tests[index].get());
        std::vector<Symbols> branches(3, symbols);
        visit_body(branches[0], stmt.bodies[index]);
        unite(symbols, branches);
    }
    static void unite(Symbols& symbols, const std::vector<Symbols>& branches) {
        std::map<int, size_t> counts;
        for (const Symbols& branch : branches)
            for (const int name : branch.stores) counts[name] += !symbols.stores.contains(name);
        for (const Symbols& branch : branches) {
            for (const auto& [name, load] : branch.loads) symbols.loads[name] = load;
            symbols.stores.insert(branch.stores.begin(), branch.stores.end());
        }
        for (const auto& [name, count] : counts)
            if (count > 0 && count < branches.size())
                symbols.loads[name] = symbols.outer_has(name) ? Load::outer : Load::looked_up;
    }

    // The scopes within statements.
    void visit_inner(const Symbols& symbols, Body& body) {
        for (const auto& stmt : body) {
            for (Body& branch : stmt->bodies) visit_inner(symbols, branch);
            if (stmt->body.empty() && stmt->otherwise.empty()) continue;
            Symbols inner;
            inner.parent = &symbols;
            if (stmt->kind == StmtKind::for_) {
                inner.loads[program_.loop_name] = Load::parameter;
                declare(inner, stmt->target);
            }
            for (const int parameter : stmt->parameters) inner.loads[parameter] = Load::parameter;
            for (const ExprPtr& value : stmt->defaults) visit(inner, value.get());
            visit_body(inner, stmt->body);
            stmt->hidden = hidden(inner);
            visit_inner(inner, stmt->body);
            Symbols otherwise;
            otherwise.parent = &symbols;
            visit_body(otherwise, stmt->otherwise);
            stmt->hidden_otherwise = hidden(otherwise);
            visit_inner(otherwise, stmt->otherwise);
        }
    }

    Program& program_;
};

}  // namespace

void find_hidden_names(Program& program) {
    Analysis(program).run();
}

}  // namespace windlass::jinja
